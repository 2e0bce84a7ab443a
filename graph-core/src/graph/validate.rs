//! Compile: checks a graph as a whole and puts its parts in order.
//!
//! Everything wrong is found in one go: whoever writes a graph should not have to mend it mistake by mistake.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::{graph::DiGraph, graph::NodeIndex, visit::Dfs};

use super::{Graph, Join, NodeEntry, NodeIdx, StateGraph, Stops, build::note};
use crate::{
    BuildError, Problem, State,
    command::RouteTarget,
    label::{END_NAME, Label, START_NAME},
    node::options::NodeOptions,
    state::{FieldSet, Lifetime},
};

pub(super) fn compile<S: State, C>(mut builder: StateGraph<S, C>) -> Result<Graph, BuildError> {
    let mut problems = Vec::new();
    let mut nodes = take_nodes(&mut builder, &mut problems);
    nodes.sort_by(|a, b| a.label.cmp(&b.label));
    nodes.dedup_by(|a, b| a.label == b.label);
    let index: BTreeMap<Label, NodeIdx> =
        nodes.iter().zip(0..).map(|(node, index)| (node.label.clone(), index)).collect();
    let names = Names { index: &index };
    let mut joins = Vec::new();
    add_edges(&builder.edges, &names, &mut nodes, &mut problems);
    add_joins(&builder.joins, &names, &mut nodes, &mut joins, &mut problems);
    for (from, router) in builder.branches {
        let targets = router.targets.clone().unwrap_or_default();
        names.check_targets(&from, &targets, &nodes, &mut problems);
        match names.source(&from, &Label::from(END_NAME), &mut problems) {
            Some(node) if nodes[node].routers.iter().any(|it| it.name == router.name) => {
                let problem = Problem::DuplicateBranch { node: from, branch: router.name };
                note(&mut problems, problem);
            }
            Some(node) => nodes[node].routers.push(router),
            None => {}
        }
    }
    for node in &nodes {
        names.check_targets(
            &node.label,
            node.targets.as_deref().unwrap_or(&[]),
            &nodes,
            &mut problems,
        );
    }
    for stops in [&builder.stop_before, &builder.stop_after] {
        if let Stops::At(labels) = stops {
            for label in labels.iter().filter(|it| !names.is_node(it)) {
                note(&mut problems, Problem::UnknownStop(label.clone()));
            }
        }
    }
    let start = index.get(START_NAME).copied().unwrap_or(0);
    let entry = &nodes[start as usize];
    let feeds_join = !entry.feeds.is_empty();
    if entry.edges.is_empty() && entry.routers.is_empty() && !entry.ends && !feeds_join {
        note(&mut problems, Problem::NoEntry);
    }
    check_declared_writes(&nodes, builder.initial.fields(), &mut problems);
    if !problems.is_empty() {
        return Err(BuildError { graph: builder.name, problems });
    }
    let fields = builder.initial.fields().iter().enumerate();
    let select = |keep: fn(&crate::state::Field) -> bool| -> FieldSet {
        fields.clone().filter(|(_, it)| keep(it)).map(|it| it.0).collect()
    };
    let warnings = warnings(&nodes, &joins, start);
    Ok(Graph {
        volatile: select(|it| it.lifetime == Lifetime::Step),
        untracked: select(|it| it.lifetime == Lifetime::Run),
        output: select(|it| it.output),
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

/// The declared nodes, and START.
fn take_nodes<S: State, C>(
    builder: &mut StateGraph<S, C>,
    problems: &mut Vec<Problem>,
) -> Vec<NodeEntry> {
    let mut nodes = vec![NodeEntry {
        label: Label::from(START_NAME),
        body: None,
        reads: None,
        options: NodeOptions::default(),
        targets: Some(Vec::new()),
        edges: Vec::new(),
        ends: false,
        routers: Vec::new(),
        feeds: Vec::new(),
        fed_by: Vec::new(),
    }];
    let mut seen = BTreeSet::new();
    for mut parts in std::mem::take(&mut builder.nodes) {
        let Some(label) = parts.label else {
            note(problems, Problem::UnnamedNode);
            continue;
        };
        if let Some(reason) = bad_name(label.as_str()) {
            note(problems, Problem::BadName { name: label, reason });
            continue;
        }
        if !seen.insert(label.clone()) {
            note(problems, Problem::DuplicateNode(label));
            continue;
        }
        if parts.options.retries.is_empty() {
            parts.options.retries.extend(builder.default_retry.clone());
        }
        parts.options.timeout = parts.options.timeout.or(builder.default_timeout);
        let options = &mut parts.options;
        options.needs_care = !options.retries.is_empty()
            || options.handler.is_some()
            || options.cache.is_some()
            || parts.node.0.reads().is_some();
        nodes.push(NodeEntry {
            label,
            reads: parts.node.0.reads(),
            body: Some(parts.node),
            options: parts.options,
            targets: parts.targets,
            edges: Vec::new(),
            ends: false,
            routers: Vec::new(),
            feeds: Vec::new(),
            fed_by: Vec::new(),
        });
    }
    nodes
}

fn bad_name(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("it is empty"),
        START_NAME | END_NAME => Some("it is the name of START or END"),
        _ if name.contains(['|', ':']) => Some("`|` and `:` separate the parts of a namespace"),
        _ => None,
    }
}

/// The names of a graph's nodes.
struct Names<'a> {
    index: &'a BTreeMap<Label, NodeIdx>,
}

impl Names<'_> {
    fn is_node(&self, label: &Label) -> bool {
        label.as_str() != START_NAME && self.index.contains_key(label)
    }

    fn unknown(&self, from: &Label, to: &Label, missing: &Label) -> Problem {
        let nodes = self.index.keys().filter(|it| self.is_node(it));
        Problem::UnknownNode {
            from: from.clone(),
            to: to.clone(),
            missing: missing.clone(),
            nodes: nodes.map(ToString::to_string).collect(),
        }
    }

    fn source(&self, from: &Label, to: &Label, problems: &mut Vec<Problem>) -> Option<usize> {
        if from.as_str() == END_NAME {
            note(problems, Problem::BadEndpoint("out of END"));
            return None;
        }
        let found = self.index.get(from).map(|it| *it as usize);
        if found.is_none() {
            note(problems, self.unknown(from, to, from));
        }
        found
    }

    /// The target's index; `Some(None)` for END.
    fn target(
        &self,
        from: &Label,
        to: &Label,
        problems: &mut Vec<Problem>,
    ) -> Option<Option<NodeIdx>> {
        match to.as_str() {
            END_NAME => return Some(None),
            START_NAME => {
                note(problems, Problem::BadEndpoint("into START"));
                return None;
            }
            _ => {}
        }
        let found = self.index.get(to).copied();
        if found.is_none() {
            note(problems, self.unknown(from, to, to));
        }
        found.map(Some)
    }

    /// Checks the places that a route says it can lead to.
    fn check_targets(
        &self,
        from: &Label,
        targets: &[RouteTarget],
        nodes: &[NodeEntry],
        problems: &mut Vec<Problem>,
    ) {
        for target in targets {
            if let Some(Some(node)) = self.target(from, &target.to, problems)
                && !target.sends
            {
                check_payload(from, &nodes[node as usize], problems);
            }
        }
    }
}

fn check_payload(from: &Label, to: &NodeEntry, problems: &mut Vec<Problem>) {
    if to.body.as_ref().is_some_and(|it| it.0.wants_payload()) {
        note(problems, Problem::NeedsPayload { from: from.clone(), to: to.label.clone() });
    }
}

fn add_edges(
    edges: &[(Label, Label)],
    names: &Names<'_>,
    nodes: &mut [NodeEntry],
    problems: &mut Vec<Problem>,
) {
    for (from, to) in edges {
        let source = names.source(from, to, problems);
        let target = names.target(from, to, problems);
        let (Some(source), Some(target)) = (source, target) else { continue };
        match target {
            None => nodes[source].ends = true,
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
    names: &Names<'_>,
    nodes: &mut [NodeEntry],
    joins: &mut Vec<Join>,
    problems: &mut Vec<Problem>,
) {
    for (from, to) in declared {
        let sources: Vec<_> = from.iter().filter_map(|it| names.source(it, to, problems)).collect();
        let first = from.first().cloned().unwrap_or_else(|| Label::from(START_NAME));
        let Some(target) = names.target(&first, to, problems) else { continue };
        if let Some(target) = target {
            check_payload(&first, &nodes[target as usize], problems);
            nodes[target as usize].fed_by.push(joins.len());
        }
        let mut sources: Vec<NodeIdx> = sources.into_iter().map(index_of).collect();
        sources.sort_unstable();
        sources.dedup();
        for source in &sources {
            nodes[*source as usize].feeds.push(joins.len());
        }
        let names = from.iter().map(Label::as_str).collect::<Vec<_>>().join("+");
        joins.push(Join { key: format!("{names}:{to}"), sources, target });
    }
}

fn index_of(index: usize) -> NodeIdx {
    NodeIdx::try_from(index).expect("a graph has fewer than four thousand million nodes")
}

/// Looks for nodes that are certain to run side by side and to write the same single-value field.
fn check_declared_writes(
    nodes: &[NodeEntry],
    fields: &[crate::state::Field],
    problems: &mut Vec<Problem>,
) {
    for node in nodes {
        for field in node.options.writes.iter().flatten() {
            if !fields.iter().any(|it| it.name == *field) {
                let problem =
                    Problem::UnknownField { node: node.label.clone(), field: field.clone() };
                note(problems, problem);
            }
        }
        for (first, second) in pairs(&node.edges) {
            let (first, second) = (&nodes[first as usize], &nodes[second as usize]);
            let single =
                |name: &&String| fields.iter().any(|it| it.name == **name && !it.many_writers);
            for field in first.options.writes.iter().flatten().filter(single) {
                if second.options.writes.iter().flatten().any(|it| it == field) {
                    let problem = Problem::ParallelWrite {
                        field: field.clone(),
                        first: first.label.clone(),
                        second: second.label.clone(),
                    };
                    note(problems, problem);
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

/// What looks wrong: nodes that nothing leads to, and joins that cannot fire.
fn warnings(nodes: &[NodeEntry], joins: &[Join], start: NodeIdx) -> Vec<Problem> {
    let reached = reachable(nodes, joins, start);
    let mut warnings = Vec::new();
    for (node, entry) in nodes.iter().enumerate() {
        if !reached.contains(&node) {
            warnings.push(Problem::Unreachable(entry.label.clone()));
        }
    }
    for join in joins {
        let Some(target) = join.target else { continue };
        let to = nodes[target as usize].label.clone();
        for source in join.sources.iter().filter(|it| !reached.contains(&(**it as usize))) {
            let source_node = nodes[*source as usize].label.clone();
            warnings.push(Problem::DeadJoin { to: to.clone(), source_node });
        }
        warnings.extend(exclusive(nodes, joins, join, &to));
    }
    warnings
}

/// All that a run can come to, as far as that is known before it runs.
fn reachable(nodes: &[NodeEntry], joins: &[Join], start: NodeIdx) -> BTreeSet<usize> {
    let mut graph = DiGraph::<(), ()>::new();
    let indexes: Vec<NodeIndex> = nodes.iter().map(|_| graph.add_node(())).collect();
    for (node, entry) in nodes.iter().enumerate() {
        for target in ways_out(nodes, joins, entry) {
            graph.add_edge(indexes[node], indexes[target as usize], ());
        }
    }
    let mut walk = Dfs::new(&graph, indexes[start as usize]);
    let mut reached = BTreeSet::new();
    while let Some(node) = walk.next(&graph) {
        reached.insert(node.index());
    }
    reached
}

fn ways_out(nodes: &[NodeEntry], joins: &[Join], entry: &NodeEntry) -> Vec<NodeIdx> {
    let mut ways = entry.edges.clone();
    ways.extend(entry.feeds.iter().filter_map(|it| joins[*it].target));
    let routes = entry.routers.iter().map(|it| &it.targets).chain([&entry.targets]);
    for targets in routes {
        match targets {
            // It may go anywhere.
            None => ways.extend((0..nodes.len()).map(index_of)),
            Some(targets) => ways.extend(targets.iter().filter_map(|it| find(nodes, &it.to))),
        }
    }
    ways
}

fn find(nodes: &[NodeEntry], label: &Label) -> Option<NodeIdx> {
    nodes.binary_search_by(|it| it.label.cmp(label)).ok().map(index_of)
}

/// Joins that wait for two nodes of which one branch, the only way to either, chooses one.
fn exclusive(nodes: &[NodeEntry], joins: &[Join], join: &Join, to: &Label) -> Option<Problem> {
    let only_way = |target: NodeIdx| {
        let mut into = nodes.iter().filter(|it| ways_out(nodes, joins, it).contains(&target));
        into.next().filter(|_| into.next().is_none())
    };
    for (first, second) in pairs(&join.sources) {
        let (Some(a), Some(b)) = (only_way(first), only_way(second)) else { continue };
        let chooses = a.edges.is_empty() && a.feeds.is_empty() && a.routers.len() == 1;
        let one_of = |targets: &Vec<RouteTarget>| {
            // A variant that names several nodes goes to all of them.
            let variants = |node: NodeIdx| -> Vec<_> {
                let label = &nodes[node as usize].label;
                targets.iter().filter(|it| it.to == *label).map(|it| &it.variant).collect()
            };
            let (firsts, seconds) = (variants(first), variants(second));
            !firsts.iter().any(|it| seconds.contains(it))
        };
        let single = a.routers.first().is_some_and(|it| it.one_of);
        let targets = a.routers.first().and_then(|it| it.targets.as_ref());
        if a.label == b.label && chooses && single && targets.is_some_and(one_of) {
            return Some(Problem::ExclusiveJoin {
                to: to.clone(),
                first: nodes[first as usize].label.clone(),
                second: nodes[second as usize].label.clone(),
                branch: a.label.clone(),
            });
        }
    }
    None
}
