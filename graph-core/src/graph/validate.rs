//! Compilation, which validates a graph as a whole and resolves node names to indexes.
//!
//! All problems are collected and reported together.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    command::route::{DeclaredTargets, RouteTarget},
    graph::{
        build_error::{BuildError, BuildProblem},
        declaration::Declaration,
        erased::{FieldView, Graph, Join, NodeEntry, NodeIdx},
        fields::{DeclaredFields, NodeDeclaration},
        paths::{index_of, pairs, successors, unreachable_nodes, warnings},
        stops::Stops,
    },
    label::{END_NAME, Label, START_NAME},
    node::options::NodeOptions,
    spans,
    state::{
        erased::ErasedState,
        field::{DEFAULT_REDUCER, Field, FieldSet, Lifetime},
    },
};

pub(super) fn compile(mut builder: Declaration) -> Result<Graph, BuildError> {
    let mut problems = Vec::new();
    let mut nodes = take_nodes(&mut builder, &mut problems);
    nodes.sort_by(|a, b| a.label.cmp(&b.label));
    nodes.dedup_by(|a, b| a.label == b.label);
    let index: BTreeMap<Label, NodeIdx> =
        nodes.iter().zip(0..).map(|(node, index)| (node.label.clone(), index)).collect();
    let names = NodeNames { index: &index };
    let mut joins = Vec::new();
    add_edges(&builder.edges, &names, &mut nodes, &mut problems);
    add_joins(&builder.joins, &names, &mut nodes, &mut joins, &mut problems);
    for (from, router) in builder.branches {
        let targets = router.targets.clone().unwrap_or_default();
        names.check_targets(&from, &targets, &nodes, &mut problems);
        match names.source(&from, &Label::from(END_NAME), &mut problems) {
            Some(node) if nodes[node].routers.iter().any(|it| it.name == router.name) => {
                let problem = BuildProblem::DuplicateBranch { node: from, branch: router.name };
                push_unique(&mut problems, problem);
            }
            Some(node) => {
                nodes[node].options.routes_in_task |= router.is_async();
                nodes[node].routers.push(router);
            }
            None => {}
        }
    }
    for node in &nodes {
        for targets in node.command_targets().flatten() {
            names.check_targets(&node.label, targets, &nodes, &mut problems);
        }
    }
    for stops in [&builder.stop_before, &builder.stop_after] {
        if let Stops::At(labels) = stops {
            for label in labels.iter().filter(|it| !names.is_node(it)) {
                push_unique(&mut problems, BuildProblem::UnknownStop(label.clone()));
            }
        }
    }
    let start = index.get(START_NAME).copied().unwrap_or(0);
    let entry = &nodes[start as usize];
    // An edge out of START that is invalid has been reported already.
    let leads_nowhere = !builder.edges.iter().any(|(from, _)| from.as_str() == START_NAME);
    let feeds_join = !entry.outgoing_joins.is_empty();
    if leads_nowhere && entry.routers.is_empty() && !feeds_join {
        push_unique(&mut problems, BuildProblem::NoEntry);
    }
    check_declared_writes(&nodes, builder.initial.fields(), &mut problems);
    // Another problem, such as an edge to a node that does not exist, may be the reason why a node is unreachable.
    if problems.is_empty() {
        problems = unreachable_nodes(&nodes, &joins, start);
    }
    if !problems.is_empty() {
        return Err(BuildError { graph: builder.name, problems });
    }
    let fields = builder.initial.fields().iter().enumerate();
    let select = |keep: fn(&Field) -> bool| -> FieldSet {
        fields.clone().filter(|(_, it)| keep(it)).map(|it| it.0).collect()
    };
    let step_scoped = select(|it| it.lifetime == Lifetime::Step);
    let untracked = select(|it| it.lifetime == Lifetime::Run);
    let declared_fields = builder.eager.then(|| {
        let fields = builder.initial.fields();
        let declare = |it| declaration(it, &nodes, &joins, fields, (&step_scoped, &untracked));
        DeclaredFields::new(nodes.iter().map(declare).collect())
    });
    let warnings = warnings(&nodes, &joins);
    for warning in &warnings {
        spans::warn(&builder.name, warning);
    }
    Ok(Graph {
        step_scoped,
        declared_fields,
        untracked,
        output: select(|it| it.output),
        reducers: stored_reducers(builder.initial.fields()),
        name: builder.name,
        nodes,
        start,
        joins,
        stop_before: builder.stop_before,
        stop_after: builder.stop_after,
        checkpointer: builder.checkpointer,
        store: builder.store,
        cache: builder.cache,
        step_timeout: builder.step_timeout,
        max_stored_bytes: builder.max_stored_bytes,
        migrations: builder.migrations,
        warnings,
        initial: builder.initial,
        index,
    })
}

/// Returns the names of the reducers of stored fields. Fields without a reducer are left out.
fn stored_reducers(fields: &[Field]) -> BTreeMap<String, String> {
    let stored = fields.iter().filter(|it| it.lifetime == Lifetime::Persistent);
    let reducers = stored.filter(|it| it.reducer != DEFAULT_REDUCER);
    reducers.map(|it| (it.name.to_string(), it.reducer.to_owned())).collect()
}

/// Takes the declared nodes out of the builder and adds START.
fn take_nodes(builder: &mut Declaration, problems: &mut Vec<BuildProblem>) -> Vec<NodeEntry> {
    let mut nodes = vec![NodeEntry {
        label: Label::from(START_NAME),
        body: None,
        subgraph: None,
        reads: None,
        view: None,
        limits_node_to_view: false,
        options: NodeOptions::default(),
        targets: DeclaredTargets::default(),
        edges: Vec::new(),
        leads_to_end: false,
        routers: Vec::new(),
        outgoing_joins: Vec::new(),
        incoming_joins: Vec::new(),
    }];
    let mut seen = BTreeSet::new();
    for mut parts in std::mem::take(&mut builder.nodes) {
        let Some(label) = parts.label else {
            push_unique(problems, BuildProblem::UnnamedNode);
            continue;
        };
        if let Some(reason) = invalid_name_reason(label.as_str()) {
            push_unique(problems, BuildProblem::InvalidName { name: label, reason });
            continue;
        }
        if !seen.insert(label.clone()) {
            push_unique(problems, BuildProblem::DuplicateNode(label));
            continue;
        }
        if parts.options.retries.is_empty() {
            parts.options.retries.extend(builder.default_retry.clone());
        }
        parts.options.timeout = parts.options.timeout.or(builder.default_timeout);
        let options = &mut parts.options;
        options.routes_in_task = !options.retries.is_empty()
            || options.handler.is_some()
            || options.cache.is_some()
            || options.reads.is_some()
            || parts.body.0.reads().is_some();
        let reads = parts.body.0.reads();
        nodes.push(NodeEntry {
            label,
            view: field_view(options, reads.as_deref(), &*builder.initial),
            limits_node_to_view: options.reads.is_some(),
            reads,
            body: Some(parts.body),
            subgraph: parts.subgraph,
            options: parts.options,
            targets: parts.targets,
            edges: Vec::new(),
            leads_to_end: false,
            routers: Vec::new(),
            outgoing_joins: Vec::new(),
            incoming_joins: Vec::new(),
        });
    }
    nodes
}

/// Returns the part of the state that a node declares to read. `None` if it declares no fields, or if its state type
/// hides the other fields itself.
///
/// Other fields have the value of the initial state. Those that do not keep their value, such as step-scoped ones, are
/// cleared.
fn field_view(
    options: &NodeOptions,
    reads: Option<&Vec<String>>,
    initial: &dyn ErasedState,
) -> Option<FieldView> {
    let reads = options.reads.as_ref().or(reads.filter(|_| initial.has_fixed_fields()))?;
    let mut view = FieldView { visible: FieldSet::default(), hidden: initial.fork() };
    for (index, field) in initial.fields().iter().enumerate() {
        if reads.iter().any(|it| field.name == *it) {
            view.visible.insert(index);
        } else if field.lifetime != Lifetime::Persistent {
            view.hidden.clear(index);
        }
    }
    Some(view)
}

fn invalid_name_reason(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("it is empty"),
        START_NAME | END_NAME => Some("it is reserved for START and END"),
        _ if name.contains(['|', ':']) => Some("it contains `|` or `:`, which separate namespaces"),
        _ => None,
    }
}

/// Looks up nodes by name and reports unknown ones.
struct NodeNames<'a> {
    index: &'a BTreeMap<Label, NodeIdx>,
}

impl NodeNames<'_> {
    fn is_node(&self, label: &Label) -> bool {
        label.as_str() != START_NAME && self.index.contains_key(label)
    }

    fn unknown(&self, from: &Label, to: &Label, missing: &Label) -> BuildProblem {
        let nodes = self.index.keys().filter(|it| self.is_node(it));
        BuildProblem::UnknownNode {
            from: from.clone(),
            to: to.clone(),
            missing: missing.clone(),
            nodes: nodes.map(ToString::to_string).collect(),
        }
    }

    fn source(&self, from: &Label, to: &Label, problems: &mut Vec<BuildProblem>) -> Option<usize> {
        if from.as_str() == END_NAME {
            push_unique(problems, BuildProblem::InvalidEndpoint("out of END"));
            return None;
        }
        let found = self.index.get(from).map(|it| *it as usize);
        if found.is_none() {
            push_unique(problems, self.unknown(from, to, from));
        }
        found
    }

    /// Returns the index of the target. `Some(None)` means END, and `None` means an invalid target.
    fn target(
        &self,
        from: &Label,
        to: &Label,
        problems: &mut Vec<BuildProblem>,
    ) -> Option<Option<NodeIdx>> {
        match to.as_str() {
            END_NAME => return Some(None),
            START_NAME => {
                push_unique(problems, BuildProblem::InvalidEndpoint("into START"));
                return None;
            }
            _ => {}
        }
        let found = self.index.get(to).copied();
        if found.is_none() {
            push_unique(problems, self.unknown(from, to, to));
        }
        found.map(Some)
    }

    /// Validates the declared targets of a route.
    fn check_targets(
        &self,
        from: &Label,
        targets: &[RouteTarget],
        nodes: &[NodeEntry],
        problems: &mut Vec<BuildProblem>,
    ) {
        for target in targets {
            if let Some(Some(node)) = self.target(from, &target.to, problems) {
                if !target.sends {
                    check_payload(from, &nodes[node as usize], problems);
                }
            }
        }
    }
}

fn check_payload(from: &Label, to: &NodeEntry, problems: &mut Vec<BuildProblem>) {
    if to.body.as_ref().is_some_and(|it| it.0.requires_payload()) {
        push_unique(
            problems,
            BuildProblem::MissingPayload { from: from.clone(), to: to.label.clone() },
        );
    }
}

fn add_edges(
    edges: &[(Label, Label)],
    names: &NodeNames<'_>,
    nodes: &mut [NodeEntry],
    problems: &mut Vec<BuildProblem>,
) {
    for (from, to) in edges {
        let source = names.source(from, to, problems);
        let target = names.target(from, to, problems);
        let (Some(source), Some(target)) = (source, target) else { continue };
        match target {
            None => nodes[source].leads_to_end = true,
            Some(target) => {
                check_payload(from, &nodes[target as usize], problems);
                if !nodes[source].edges.contains(&target) {
                    nodes[source].edges.push(target);
                }
            }
        }
    }
}

fn add_joins(
    declared: &[(Vec<Label>, Label)],
    names: &NodeNames<'_>,
    nodes: &mut [NodeEntry],
    joins: &mut Vec<Join>,
    problems: &mut Vec<BuildProblem>,
) {
    for (from, to) in declared {
        let sources: Vec<_> = from.iter().filter_map(|it| names.source(it, to, problems)).collect();
        let first = from.first().cloned().unwrap_or_else(|| Label::from(START_NAME));
        let Some(target) = names.target(&first, to, problems) else { continue };
        if let Some(target) = target {
            check_payload(&first, &nodes[target as usize], problems);
            nodes[target as usize].incoming_joins.push(joins.len());
        }
        let mut sources: Vec<NodeIdx> = sources.into_iter().map(index_of).collect();
        sources.sort_unstable();
        sources.dedup();
        for source in &sources {
            nodes[*source as usize].outgoing_joins.push(joins.len());
        }
        let names = from.iter().map(Label::as_str).collect::<Vec<_>>().join("+");
        joins.push(Join { key: format!("{names}:{to}"), sources, target });
    }
}

/// Reports declared fields that do not exist. Also reports two nodes that always run concurrently and declare writes to
/// the same field, if that field accepts only one writer per step.
fn check_declared_writes(nodes: &[NodeEntry], fields: &[Field], problems: &mut Vec<BuildProblem>) {
    for node in nodes {
        for field in node.options.writes.iter().chain(&node.options.reads).flatten() {
            if !fields.iter().any(|it| it.name == *field) {
                let problem =
                    BuildProblem::UnknownField { node: node.label.clone(), field: field.clone() };
                push_unique(problems, problem);
            }
        }
        for (first, second) in pairs(&node.edges) {
            let (first, second) = (&nodes[first as usize], &nodes[second as usize]);
            let single =
                |name: &&String| fields.iter().any(|it| it.name == **name && !it.many_writers);
            for field in first.options.writes.iter().flatten().filter(single) {
                if second.options.writes.iter().flatten().any(|it| it == field) {
                    let problem = BuildProblem::ParallelWrite {
                        field: field.clone(),
                        first: first.label.clone(),
                        second: second.label.clone(),
                    };
                    push_unique(problems, problem);
                }
            }
        }
    }
}

/// Returns what a node of an eager graph declares. The node cannot run ahead if it reads a step-scoped or untracked
/// field, or may write an untracked one: the values of these fields depend on where an earlier run ended.
fn declaration(
    node: &NodeEntry,
    nodes: &[NodeEntry],
    joins: &[Join],
    fields: &[Field],
    (step_scoped, untracked): (&FieldSet, &FieldSet),
) -> NodeDeclaration {
    let field_set = |names: &Vec<String>| -> FieldSet {
        let index = |name: &String| fields.iter().position(|it| it.name == *name);
        names.iter().filter_map(index).collect()
    };
    let options = &node.options;
    let sees_payload = node.body.as_ref().is_some_and(|it| it.0.requires_payload());
    let reads = match options.reads.as_ref().or(node.reads.as_deref()) {
        Some(reads) => Some(field_set(reads)),
        None => sees_payload.then(FieldSet::default),
    };
    let all = || (0..fields.len()).collect();
    let writes = options.writes.as_ref().map_or_else(all, field_set);
    // The branches of such a node can see every field, regardless of what the node declares.
    let has_unlimited_branches = !node.routers.is_empty() && node.view.is_none();
    let waits = options.defer
        || options.cache.is_some()
        || options.handler.is_some()
        || node.subgraph.is_some()
        || has_unlimited_branches
        || writes.intersects(untracked);
    let is_stored = |it: &FieldSet| !it.intersects(step_scoped) && !it.intersects(untracked);
    NodeDeclaration {
        reads: reads.filter(|it| !waits && is_stored(it)),
        writes,
        successors: successors(nodes, joins, node),
    }
}

/// Adds a problem unless the list already contains it.
fn push_unique(problems: &mut Vec<BuildProblem>, problem: BuildProblem) {
    if !problems.contains(&problem) {
        problems.push(problem);
    }
}
