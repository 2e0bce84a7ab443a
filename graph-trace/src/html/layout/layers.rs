//! Assigns nodes to layers and orders each layer.

use petgraph::{
    Direction::Incoming,
    algo::{dijkstra, has_path_connecting, toposort},
    graphmap::DiGraphMap,
};

/// An edge between two nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Whether the edge is conditional.
    pub(super) conditional: bool,
}

/// The nodes of a graph in layers. Each layer that an edge passes through contains a dummy item for that edge.
#[derive(Debug)]
pub(super) struct Layered {
    /// The items of each layer, from left to right. Nodes have lower indices than dummy items.
    pub(super) layers: Vec<Vec<usize>>,
    /// The items of each edge from top to bottom: a node, dummy items and a node. Empty for an edge from a node to
    /// itself.
    pub(super) chains: Vec<Vec<usize>>,
    /// Whether each edge leads upwards, against the direction of its chain.
    pub(super) reversed: Vec<bool>,
    pub(super) n_items: usize,
}

impl Layered {
    /// Assigns nodes to layers. Node 0 is the start.
    pub(super) fn new(n_nodes: usize, edges: &[Edge]) -> Self {
        let reversed = reversed_edges(n_nodes, edges);
        let down: Vec<_> = edges
            .iter()
            .zip(&reversed)
            .map(|(it, reversed)| if *reversed { (it.to, it.from) } else { (it.from, it.to) })
            .collect();
        let depth = layer_numbers(n_nodes, &down);
        let mut layered = Self {
            layers: vec![Vec::new(); depth.iter().max().map_or(0, |it| it + 1)],
            chains: Vec::new(),
            reversed,
            n_items: n_nodes,
        };
        for (node, depth) in depth.iter().enumerate() {
            layered.layers[*depth].push(node);
        }
        for &(from, to) in &down {
            let chain = if from == to { Vec::new() } else { layered.chain(from, to, &depth) };
            layered.chains.push(chain);
        }
        layered.order();
        layered
    }

    fn chain(&mut self, from: usize, to: usize, depth: &[usize]) -> Vec<usize> {
        let mut chain = vec![from];
        for layer in depth[from] + 1..depth[to] {
            self.layers[layer].push(self.n_items);
            chain.push(self.n_items);
            self.n_items += 1;
        }
        chain.push(to);
        chain
    }

    /// Returns the neighbours of each item in the layer above and in the layer below.
    pub(super) fn neighbours(&self) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
        let (mut up, mut down) = (vec![Vec::new(); self.n_items], vec![Vec::new(); self.n_items]);
        for pair in self.chains.iter().flat_map(|it| it.windows(2)) {
            down[pair[0]].push(pair[1]);
            up[pair[1]].push(pair[0]);
        }
        (up, down)
    }

    /// Orders the layers to reduce crossings. The layers are processed downwards and upwards in turn, and each item
    /// moves to the mean position of its neighbours. The best order found is kept.
    fn order(&mut self) {
        let (up, down) = self.neighbours();
        let mut best = (self.crossings(&down), self.layers.clone());
        for sweep in 0..12 {
            let n_layers = self.layers.len();
            for nth in 1..n_layers {
                let (layer, fixed, neighbours) = match sweep % 2 {
                    0 => (nth, nth - 1, &up),
                    _ => (n_layers - 1 - nth, n_layers - nth, &down),
                };
                self.order_layer(layer, fixed, neighbours);
            }
            let crossings = self.crossings(&down);
            if crossings < best.0 {
                best = (crossings, self.layers.clone());
            }
        }
        self.layers = best.1;
    }

    fn order_layer(&mut self, layer: usize, fixed: usize, neighbours: &[Vec<usize>]) {
        let position = self.positions(fixed);
        let items = std::mem::take(&mut self.layers[layer]);
        let mut keyed: Vec<_> = items
            .iter()
            .enumerate()
            .map(|(at, item)| {
                let sum: usize = neighbours[*item].iter().map(|it| position[*it]).sum();
                let n_neighbours = neighbours[*item].len();
                // An item without neighbours keeps its position.
                let key =
                    if n_neighbours == 0 { at as f64 } else { sum as f64 / n_neighbours as f64 };
                (key, *item)
            })
            .collect();
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.layers[layer] = keyed.into_iter().map(|it| it.1).collect();
    }

    fn positions(&self, layer: usize) -> Vec<usize> {
        let mut positions = vec![0; self.n_items];
        for (at, item) in self.layers[layer].iter().enumerate() {
            positions[*item] = at;
        }
        positions
    }

    fn crossings(&self, down: &[Vec<usize>]) -> usize {
        let mut count = 0;
        for (nth, layer) in self.layers.iter().enumerate().skip(1) {
            let position = self.positions(nth);
            let mut seen = vec![0_usize; layer.len()];
            for item in &self.layers[nth - 1] {
                let mut ends: Vec<_> = down[*item].iter().map(|it| position[*it]).collect();
                ends.sort_unstable();
                count += ends.iter().map(|it| seen[it + 1..].iter().sum::<usize>()).sum::<usize>();
                ends.iter().for_each(|it| seen[*it] += 1);
            }
        }
        count
    }
}

/// Returns which edges must be reversed so that the graph has no cycles.
///
/// Edges are added one by one: unconditional edges before conditional ones, and edges near the start before those
/// far from it. An edge that would close a cycle is reversed.
fn reversed_edges(n_nodes: usize, edges: &[Edge]) -> Vec<bool> {
    let all = graph(n_nodes, edges.iter().map(|it| (it.from, it.to)));
    let distances = dijkstra(&all, 0, None, |_| 1);
    let distance = |node: usize| distances.get(&node).copied().unwrap_or(usize::MAX);
    let mut order: Vec<_> =
        (0..edges.len()).filter(|it| edges[*it].from != edges[*it].to).collect();
    order.sort_by_key(|it| {
        let Edge { from, to, conditional } = edges[*it];
        (conditional, distance(from), distance(to), *it)
    });
    let mut down = graph(n_nodes, []);
    let mut reversed = vec![false; edges.len()];
    for edge in order {
        let Edge { from, to, .. } = edges[edge];
        reversed[edge] = has_path_connecting(&down, to, from, None);
        let (upper, lower) = if reversed[edge] { (to, from) } else { (from, to) };
        down.add_edge(upper, lower, ());
    }
    reversed
}

/// Returns the layer of each node, which is one below the lowest of its predecessors.
fn layer_numbers(n_nodes: usize, down: &[(usize, usize)]) -> Vec<usize> {
    let graph = graph(n_nodes, down.iter().copied().filter(|it| it.0 != it.1));
    // Apart from the start, a node without predecessors can be reached only by commands. It is placed below the start.
    let is_entry = |it| it > 0 && graph.neighbors_directed(it, Incoming).next().is_none();
    let mut depth: Vec<_> = (0..n_nodes).map(|it| usize::from(is_entry(it))).collect();
    for node in toposort(&graph, None).expect("the edges that close cycles are reversed") {
        for to in graph.neighbors(node) {
            depth[to] = depth[to].max(depth[node] + 1);
        }
    }
    depth
}

/// Returns a graph whose nodes are numbered from 0.
fn graph(n_nodes: usize, edges: impl IntoIterator<Item = (usize, usize)>) -> DiGraphMap<usize, ()> {
    let mut graph = DiGraphMap::from_edges(edges);
    for node in 0..n_nodes {
        graph.add_node(node);
    }
    graph
}

#[cfg(test)]
mod tests {
    use super::{Edge, Layered};

    /// Parses edges such as `1>2`, or `1?2` for a conditional edge.
    fn layered(n_nodes: usize, edges: &str) -> Layered {
        let edge = |text: &str| {
            let (from, to) = text.split_once(['>', '?']).unwrap();
            let number = |it: &str| it.parse().unwrap();
            Edge { from: number(from), to: number(to), conditional: text.contains('?') }
        };
        let edges: Vec<_> = edges.split_whitespace().map(edge).collect();
        Layered::new(n_nodes, &edges)
    }

    #[track_caller]
    fn check(n_nodes: usize, edges: &str, layers: &[&[usize]], reversed: &[usize]) {
        let layered = layered(n_nodes, edges);
        let nodes = |layer: &Vec<usize>| -> Vec<_> {
            let mut nodes: Vec<_> = layer.iter().copied().filter(|it| *it < n_nodes).collect();
            nodes.sort_unstable();
            nodes
        };
        assert_eq!(layered.layers.iter().map(nodes).collect::<Vec<_>>(), layers);
        let back = (0..layered.reversed.len()).filter(|it| layered.reversed[*it]);
        assert_eq!(back.collect::<Vec<_>>(), reversed);
    }

    #[test]
    fn nodes_are_below_their_predecessors() {
        check(4, "0>1 1>2 1>3 2>3", &[&[0], &[1], &[2], &[3]], &[]);
        // A back edge is reversed, whether or not it is conditional. An edge from a node to itself is ignored.
        check(3, "0>1 1>2 2?1 2?2", &[&[0], &[1], &[2]], &[2]);
        check(3, "0>1 2>1 1>2", &[&[0], &[1], &[2]], &[1]);
        // Unconditional edges take precedence over conditional edges, even if the conditional edges come first.
        check(4, "0>1 1?3 3?2 1>2 2>3", &[&[0], &[1], &[2], &[3]], &[2]);
        // Node 2 can be reached only by commands.
        check(3, "0>1", &[&[0], &[1, 2]], &[]);
        check(0, "", &[], &[]);
    }

    #[test]
    fn few_edges_cross() {
        let layered = layered(7, "0>1 0>2 0>3 1>6 2>5 3>4");
        let (_, down) = layered.neighbours();
        assert_eq!(layered.crossings(&down), 0);
    }
}
