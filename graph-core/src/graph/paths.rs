//! Paths through a graph. Finds nodes that no path leads to, and joins that wait for alternatives of the same branch.

use petgraph::{
    Direction,
    graph::{DiGraph, NodeIndex},
    visit::{Dfs, VisitMap},
};

use crate::{
    command::route::RouteTarget,
    graph::{
        build_error::BuildProblem,
        erased::{Join, NodeEntry, NodeIdx},
    },
    label::Label,
};

/// Returns the nodes that no path leads to. Nodes that can be reached from a returned node are left out.
pub(super) fn unreachable_nodes(
    nodes: &[NodeEntry],
    joins: &[Join],
    start: NodeIdx,
) -> Vec<BuildProblem> {
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
pub(super) fn warnings(nodes: &[NodeEntry], joins: &[Join]) -> Vec<BuildProblem> {
    let exclusive = |join: &Join| {
        let target = join.target?;
        exclusive_join(nodes, joins, join, &nodes[target as usize].label)
    };
    joins.iter().filter_map(exclusive).collect()
}

/// Returns the nodes that edges, joins, routes and commands of a node may lead to.
pub(super) fn successors(nodes: &[NodeEntry], joins: &[Join], entry: &NodeEntry) -> Vec<NodeIdx> {
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

/// Returns all pairs of the nodes, in ascending order.
pub(super) fn pairs(nodes: &[NodeIdx]) -> impl Iterator<Item = (NodeIdx, NodeIdx)> + '_ {
    let mut sorted = nodes.to_vec();
    sorted.sort_unstable();
    (0..sorted.len()).flat_map(move |first| {
        let sorted = sorted.clone();
        (first + 1..sorted.len()).map(move |second| (sorted[first], sorted[second]))
    })
}

pub(super) fn index_of(index: usize) -> NodeIdx {
    NodeIdx::try_from(index).expect("a graph has fewer than 2^32 nodes")
}
