//! Compilation, which validates a graph as a whole and resolves node names to indexes.
//!
//! All problems are collected and reported together.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::{
    Direction,
    graph::{DiGraph, NodeIndex},
    visit::{Dfs, VisitMap},
};

use crate::{
    command::route::{DeclaredTargets, RouteTarget},
    error::{BuildError, BuildProblem},
    graph::{
        declaration::Declaration,
        erased::{FieldView, Graph, Join, NodeEntry, NodeIdx},
        fields::{DeclaredFields, NodeDeclaration},
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

/// Returns the part of the state that a node declares to read. `None` if it declares no fields, or if its state type hides
/// the other fields itself.
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

    /// Returns the index of the target. `Some(None)` stands for END, `None` for an invalid target.
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

fn index_of(index: usize) -> NodeIdx {
    NodeIdx::try_from(index).expect("a graph has fewer than 2^32 nodes")
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

fn pairs(nodes: &[NodeIdx]) -> impl Iterator<Item = (NodeIdx, NodeIdx)> + '_ {
    let mut sorted = nodes.to_vec();
    sorted.sort_unstable();
    (0..sorted.len()).flat_map(move |first| {
        let sorted = sorted.clone();
        (first + 1..sorted.len()).map(move |second| (sorted[first], sorted[second]))
    })
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
    // The branches of such a node can see every field, whatever the node declares.
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

/// Returns the nodes that no path leads to. Nodes that can be reached from a returned node are left out.
fn unreachable_nodes(nodes: &[NodeEntry], joins: &[Join], start: NodeIdx) -> Vec<BuildProblem> {
    let mut graph = DiGraph::<(), ()>::new();
    let indexes: Vec<NodeIndex> = nodes.iter().map(|_| graph.add_node(())).collect();
    for (node, entry) in nodes.iter().enumerate() {
        for target in successors(nodes, joins, entry) {
            graph.add_edge(indexes[node], indexes[target as usize], ());
        }
    }
    let mut walk = Dfs::new(&graph, indexes[start as usize]);
    let commanded = nodes.iter().zip(&indexes).filter(|(it, _)| it.options.command_only);
    walk.stack.extend(commanded.map(|(_, index)| *index));
    let mut problems = Vec::new();
    loop {
        while walk.next(&graph).is_some() {}
        let is_unreached = |it: &NodeIndex| !walk.discovered.is_visited(it);
        let mut unreached = indexes.iter().copied().filter(is_unreached);
        let has_no_predecessor = |it: &NodeIndex| {
            let mut predecessors = graph.neighbors_directed(*it, Direction::Incoming);
            !predecessors.any(|other| other != *it && is_unreached(&other))
        };
        // In a cycle, every node has a predecessor.
        let first = unreached.clone().find(has_no_predecessor).or_else(|| unreached.next());
        let Some(first) = first else { return problems };
        problems.push(BuildProblem::Unreachable(nodes[first.index()].label.clone()));
        walk.move_to(first);
    }
}

/// Returns problems that do not prevent a run: joins that probably never fire.
fn warnings(nodes: &[NodeEntry], joins: &[Join]) -> Vec<BuildProblem> {
    let exclusive = |join: &Join| {
        let target = join.target?;
        exclusive_join(nodes, joins, join, &nodes[target as usize].label)
    };
    joins.iter().filter_map(exclusive).collect()
}

fn successors(nodes: &[NodeEntry], joins: &[Join], entry: &NodeEntry) -> Vec<NodeIdx> {
    let mut successors = entry.edges.clone();
    successors.extend(entry.outgoing_joins.iter().filter_map(|it| joins[*it].target));
    let routes = entry.routers.iter().map(|it| it.targets.as_deref());
    for targets in routes.chain(entry.command_targets()) {
        match targets {
            // Targets that are only known at run time may be any node.
            None => successors.extend((0..nodes.len()).map(index_of)),
            Some(targets) => {
                successors.extend(targets.iter().filter_map(|it| find(nodes, &it.to)));
            }
        }
    }
    successors
}

fn find(nodes: &[NodeEntry], label: &Label) -> Option<NodeIdx> {
    nodes.binary_search_by(|it| it.label.cmp(label)).ok().map(index_of)
}

/// Reports a join that never fires because it waits for two nodes that are alternatives of one branch, and no other
/// path leads to them.
fn exclusive_join(
    nodes: &[NodeEntry],
    joins: &[Join],
    join: &Join,
    to: &Label,
) -> Option<BuildProblem> {
    let only_predecessor = |target: NodeIdx| {
        let leads_to = |it: &&NodeEntry| successors(nodes, joins, it).contains(&target);
        let mut predecessors = nodes.iter().filter(leads_to);
        predecessors.next().filter(|_| predecessors.next().is_none())
    };
    for (first, second) in pairs(&join.sources) {
        let (Some(a), Some(b)) = (only_predecessor(first), only_predecessor(second)) else {
            continue;
        };
        let has_one_router =
            a.edges.is_empty() && a.outgoing_joins.is_empty() && a.routers.len() == 1;
        let in_different_variants = |targets: &Vec<RouteTarget>| {
            // A variant with several targets leads to all of them.
            let variants = |node: NodeIdx| -> Vec<_> {
                let label = &nodes[node as usize].label;
                targets.iter().filter(|it| it.to == *label).map(|it| &it.variant).collect()
            };
            let (firsts, seconds) = (variants(first), variants(second));
            !firsts.iter().any(|it| seconds.contains(it))
        };
        let exclusive = a.routers.first().is_some_and(|it| it.exclusive);
        let targets = a.routers.first().and_then(|it| it.targets.as_ref());
        if a.label == b.label
            && has_one_router
            && exclusive
            && targets.is_some_and(in_different_variants)
        {
            return Some(BuildProblem::ExclusiveJoin {
                to: to.clone(),
                first: nodes[first as usize].label.clone(),
                second: nodes[second as usize].label.clone(),
                branch: a.label.clone(),
            });
        }
    }
    None
}

/// Adds a problem unless the list already contains it.
fn push_unique(problems: &mut Vec<BuildProblem>, problem: BuildProblem) {
    if !problems.contains(&problem) {
        problems.push(problem);
    }
}
