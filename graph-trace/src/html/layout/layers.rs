//! Which layer each node is in, and in which order.

/// An edge between two nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Whether it is taken only if something decides so.
    pub(super) chosen: bool,
}

/// The nodes of a graph in layers, with a place in every layer that an edge passes.
#[derive(Debug)]
pub(super) struct Layered {
    /// The items of each layer, from left to right: nodes, then places that edges pass.
    pub(super) layers: Vec<Vec<usize>>,
    /// What each edge goes through, downwards: a node, places, a node. Empty for an edge from a node to itself.
    pub(super) chains: Vec<Vec<usize>>,
    /// Whether an edge leads upwards, against its chain.
    pub(super) turned: Vec<bool>,
    pub(super) n_items: usize,
}

impl Layered {
    /// Puts nodes into layers; node 0 is where to begin.
    pub(super) fn new(n_nodes: usize, edges: &[Edge]) -> Self {
        let turned = turned(n_nodes, edges);
        let down: Vec<_> = edges
            .iter()
            .zip(&turned)
            .map(|(it, turned)| if *turned { (it.to, it.from) } else { (it.from, it.to) })
            .collect();
        let depth = depths(n_nodes, &down);
        let mut layered = Self {
            layers: vec![Vec::new(); depth.iter().max().map_or(0, |it| it + 1)],
            chains: Vec::new(),
            turned,
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

    /// For each item, what it is tied to one layer up and one layer down.
    pub(super) fn ties(&self) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
        let (mut up, mut down) = (vec![Vec::new(); self.n_items], vec![Vec::new(); self.n_items]);
        for pair in self.chains.iter().flat_map(|it| it.windows(2)) {
            down[pair[0]].push(pair[1]);
            up[pair[1]].push(pair[0]);
        }
        (up, down)
    }

    /// Orders the layers so that few edges cross: each item goes to the middle of what it is tied to, down and up in
    /// turns, and the best order that was seen is kept.
    fn order(&mut self) {
        let (up, down) = self.ties();
        let mut best = (self.crossings(&down), self.layers.clone());
        for sweep in 0..12 {
            let n_layers = self.layers.len();
            for nth in 1..n_layers {
                let (layer, fixed, ties) = match sweep % 2 {
                    0 => (nth, nth - 1, &up),
                    _ => (n_layers - 1 - nth, n_layers - nth, &down),
                };
                self.order_layer(layer, fixed, ties);
            }
            let crossings = self.crossings(&down);
            if crossings < best.0 {
                best = (crossings, self.layers.clone());
            }
        }
        self.layers = best.1;
    }

    fn order_layer(&mut self, layer: usize, fixed: usize, ties: &[Vec<usize>]) {
        let place = self.places(fixed);
        let items = std::mem::take(&mut self.layers[layer]);
        let mut keyed: Vec<_> = items
            .iter()
            .enumerate()
            .map(|(at, item)| {
                let sum: usize = ties[*item].iter().map(|it| place[*it]).sum();
                let n_ties = ties[*item].len();
                // What is tied to nothing stays about where it was.
                let key = if n_ties == 0 { at as f64 } else { sum as f64 / n_ties as f64 };
                (key, *item)
            })
            .collect();
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.layers[layer] = keyed.into_iter().map(|it| it.1).collect();
    }

    fn places(&self, layer: usize) -> Vec<usize> {
        let mut places = vec![0; self.n_items];
        for (at, item) in self.layers[layer].iter().enumerate() {
            places[*item] = at;
        }
        places
    }

    fn crossings(&self, down: &[Vec<usize>]) -> usize {
        let mut count = 0;
        for (nth, layer) in self.layers.iter().enumerate().skip(1) {
            let place = self.places(nth);
            let mut seen = vec![0_usize; layer.len()];
            for item in &self.layers[nth - 1] {
                let mut ends: Vec<_> = down[*item].iter().map(|it| place[*it]).collect();
                ends.sort_unstable();
                count += ends.iter().map(|it| seen[it + 1..].iter().sum::<usize>()).sum::<usize>();
                ends.iter().for_each(|it| seen[*it] += 1);
            }
        }
        count
    }
}

/// Which edges lead back, so that all others lead one way.
///
/// Edges are taken in one after the other, those that are always taken before those that are chosen, those near the
/// start before those far from it; one that would close a circle is turned round.
fn turned(n_nodes: usize, edges: &[Edge]) -> Vec<bool> {
    let distance = distances(n_nodes, edges);
    let mut order: Vec<_> =
        (0..edges.len()).filter(|it| edges[*it].from != edges[*it].to).collect();
    order.sort_by_key(|it| {
        let Edge { from, to, chosen } = edges[*it];
        (chosen, distance[from], distance[to], *it)
    });
    let mut down = vec![Vec::new(); n_nodes];
    let mut turned = vec![false; edges.len()];
    for edge in order {
        let Edge { from, to, .. } = edges[edge];
        turned[edge] = reaches(&down, to, from);
        let (upper, lower) = if turned[edge] { (to, from) } else { (from, to) };
        down[upper].push(lower);
    }
    turned
}

/// How many edges lie between node 0 and each node; what is not reached is far away.
fn distances(n_nodes: usize, edges: &[Edge]) -> Vec<usize> {
    let mut distances = vec![usize::MAX; n_nodes];
    let mut reached: Vec<_> = (0..n_nodes.min(1)).collect();
    distances[..reached.len()].fill(0);
    let mut nth = 0;
    while let Some(node) = reached.get(nth).copied() {
        for edge in edges.iter().filter(|it| it.from == node) {
            if distances[edge.to] == usize::MAX {
                distances[edge.to] = distances[node] + 1;
                reached.push(edge.to);
            }
        }
        nth += 1;
    }
    distances
}

fn reaches(down: &[Vec<usize>], from: usize, to: usize) -> bool {
    let mut seen = vec![false; down.len()];
    let mut open = vec![from];
    while let Some(node) = open.pop() {
        if node == to {
            return true;
        }
        if !std::mem::replace(&mut seen[node], true) {
            open.extend(&down[node]);
        }
    }
    false
}

/// How deep each node lies: one below the deepest that leads to it.
fn depths(n_nodes: usize, down: &[(usize, usize)]) -> Vec<usize> {
    let mut waits = vec![0; n_nodes];
    let mut out = vec![Vec::new(); n_nodes];
    for &(from, to) in down.iter().filter(|it| it.0 != it.1) {
        waits[to] += 1;
        out[from].push(to);
    }
    // What nothing leads to, other than where runs begin, is reached by commands: it stands below that.
    let mut depth: Vec<_> = (0..n_nodes).map(|it| usize::from(it > 0 && waits[it] == 0)).collect();
    let mut ready: Vec<_> = (0..n_nodes).filter(|it| waits[*it] == 0).collect();
    while let Some(node) = ready.pop() {
        for &to in &out[node] {
            depth[to] = depth[to].max(depth[node] + 1);
            waits[to] -= 1;
            if waits[to] == 0 {
                ready.push(to);
            }
        }
    }
    depth
}

#[cfg(test)]
mod tests {
    use super::{Edge, Layered};

    /// Edges as `1>2`, or `1?2` where something decides.
    fn layered(n_nodes: usize, edges: &str) -> Layered {
        let edge = |text: &str| {
            let (from, to) = text.split_once(['>', '?']).unwrap();
            let number = |it: &str| it.parse().unwrap();
            Edge { from: number(from), to: number(to), chosen: text.contains('?') }
        };
        let edges: Vec<_> = edges.split_whitespace().map(edge).collect();
        Layered::new(n_nodes, &edges)
    }

    #[track_caller]
    fn check(n_nodes: usize, edges: &str, layers: &[&[usize]], turned: &[usize]) {
        let layered = layered(n_nodes, edges);
        let nodes = |layer: &Vec<usize>| -> Vec<_> {
            let mut nodes: Vec<_> = layer.iter().copied().filter(|it| *it < n_nodes).collect();
            nodes.sort_unstable();
            nodes
        };
        assert_eq!(layered.layers.iter().map(nodes).collect::<Vec<_>>(), layers);
        let back = (0..layered.turned.len()).filter(|it| layered.turned[*it]);
        assert_eq!(back.collect::<Vec<_>>(), turned);
    }

    #[test]
    fn nodes_lie_below_what_leads_to_them() {
        check(4, "0>1 1>2 1>3 2>3", &[&[0], &[1], &[2], &[3]], &[]);
        // A way back is turned round, whether it is chosen or not, and a way to itself left out.
        check(3, "0>1 1>2 2?1 2?2", &[&[0], &[1], &[2]], &[2]);
        check(3, "0>1 2>1 1>2", &[&[0], &[1], &[2]], &[1]);
        // What is always taken counts before what is chosen, though that is met first.
        check(4, "0>1 1?3 3?2 1>2 2>3", &[&[0], &[1], &[2], &[3]], &[2]);
        // Nothing leads to 2: commands do.
        check(3, "0>1", &[&[0], &[1, 2]], &[]);
        check(0, "", &[], &[]);
    }

    #[test]
    fn few_edges_cross() {
        let layered = layered(7, "0>1 0>2 0>3 1>6 2>5 3>4");
        let (_, down) = layered.ties();
        assert_eq!(layered.crossings(&down), 0);
    }
}
