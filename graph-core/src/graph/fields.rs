//! The fields that the nodes of an eager graph declare, and the distances between the nodes.

use std::collections::VecDeque;

use crate::state::field::FieldSet;

/// The declarations of an eager graph, by node.
#[derive(Debug)]
pub(crate) struct DeclaredFields(Vec<NodeFields>);

#[derive(Debug)]
struct NodeFields {
    /// The fields that determine the node's input. `None` if the node cannot run ahead.
    reads: Option<FieldSet>,
    writes: FieldSet,
    /// The nodes that the node can lead to, sorted.
    successors: Vec<u32>,
    /// The number of edges to each node, or `u32::MAX` if the node cannot be reached.
    hops: Vec<u32>,
    /// At index `n`, the fields that nodes at most `n` edges away can write. Greater distances than the last index add
    /// no fields.
    writes_within: Vec<FieldSet>,
}

/// What one node declares.
pub(super) struct NodeDeclaration {
    /// The fields that determine the node's input. `None` if the node cannot run ahead.
    pub(super) reads: Option<FieldSet>,
    /// The fields that the node can write.
    pub(super) writes: FieldSet,
    /// The nodes that the node's edges, branches and commands can lead to.
    pub(super) successors: Vec<u32>,
}

impl DeclaredFields {
    /// Collects the declarations of all nodes.
    pub(super) fn new(mut nodes: Vec<NodeDeclaration>) -> Self {
        for node in &mut nodes {
            node.successors.sort_unstable();
            node.successors.dedup();
        }
        let hops: Vec<_> = (0..nodes.len()).map(|it| hops_from(it, &nodes)).collect();
        let within: Vec<_> = hops.iter().map(|it| writes_within(it, &nodes)).collect();
        let fields = nodes.into_iter().zip(hops).zip(within);
        let fields = fields.map(|((node, hops), writes_within)| {
            let NodeDeclaration { reads, writes, successors } = node;
            NodeFields { reads, writes, successors, hops, writes_within }
        });
        Self(fields.collect())
    }

    fn node(&self, node: u32) -> &NodeFields {
        &self.0[node as usize]
    }

    /// Returns the fields that determine the node's input, or `None` if the node cannot run ahead.
    pub(crate) fn reads(&self, node: u32) -> Option<&FieldSet> {
        self.node(node).reads.as_ref()
    }

    /// Returns whether the node, or a node at most `hops` edges away, may write one of the fields.
    pub(crate) fn may_write(&self, node: u32, hops: usize, fields: &FieldSet) -> bool {
        let within = &self.node(node).writes_within;
        within[hops.min(within.len() - 1)].intersects(fields)
    }

    /// Returns whether `to` is at most `hops` edges away from `from`.
    pub(crate) fn reaches(&self, from: u32, to: u32, hops: usize) -> bool {
        let distance = self.node(from).hops[to as usize];
        distance != u32::MAX && distance as usize <= hops
    }

    /// Returns a written field that the node does not declare.
    pub(crate) fn undeclared_write(&self, node: u32, written: &FieldSet) -> Option<usize> {
        written.iter().find(|it| !self.node(node).writes.contains(*it))
    }

    /// Returns whether the node declares that it can lead to `to`.
    pub(crate) fn declares_target(&self, node: u32, to: u32) -> bool {
        self.node(node).successors.binary_search(&to).is_ok()
    }
}

fn hops_from(from: usize, nodes: &[NodeDeclaration]) -> Vec<u32> {
    let mut hops = vec![u32::MAX; nodes.len()];
    hops[from] = 0;
    let mut queue = VecDeque::from([from]);
    while let Some(node) = queue.pop_front() {
        for next in nodes[node].successors.iter().map(|it| *it as usize) {
            if hops[next] == u32::MAX {
                hops[next] = hops[node] + 1;
                queue.push_back(next);
            }
        }
    }
    hops
}

fn writes_within(hops: &[u32], nodes: &[NodeDeclaration]) -> Vec<FieldSet> {
    let farthest = hops.iter().filter(|it| **it != u32::MAX).max().copied().unwrap_or(0);
    let mut within = vec![FieldSet::default(); farthest as usize + 1];
    for (hops, node) in hops.iter().zip(nodes) {
        if let Some(nearest) = within.get_mut(*hops as usize) {
            nearest.union_with(&node.writes);
        }
    }
    for index in 1..within.len() {
        let nearer = within[index - 1].clone();
        within[index].union_with(&nearer);
    }
    within
}
