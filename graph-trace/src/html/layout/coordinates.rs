//! Assigns coordinates to layered nodes and edges.

use super::layers::{Edge, Layered};

/// Horizontal gap between neighbours in a layer.
const GAP_X: f64 = 26.0;
/// Vertical gap between layers.
const GAP_Y: f64 = 36.0;
/// Maximum distance between the ends of neighbouring edges at a node.
const MAX_PORT_GAP: f64 = 18.0;
/// Number of sweeps over the layers. The last six sweeps consider the neighbours in both adjacent layers.
const SWEEPS: usize = 20;
/// Horizontal extent of an edge from a node to itself.
const LOOP_WIDTH: f64 = 22.0;

/// The coordinates of all nodes and edges.
#[derive(Debug)]
pub(super) struct Coordinates {
    pub(super) width: f64,
    pub(super) height: f64,
    /// Upper left corner of each node.
    pub(super) nodes: Vec<(f64, f64)>,
    /// Points of each edge, in the direction of the edge.
    pub(super) edges: Vec<Vec<(f64, f64)>>,
}

/// Assigns coordinates to nodes with the given sizes and to their edges.
pub(super) fn assign(layered: &Layered, sizes: &[(f64, f64)], ends: &[Edge]) -> Coordinates {
    let loops = |node: usize| ends.iter().any(|it| it.from == node && it.to == node);
    let widths: Vec<_> = (0..layered.n_items)
        .map(|item| match sizes.get(item) {
            Some(size) => size.0 + if loops(item) { 2.0 * LOOP_WIDTH } else { 0.0 },
            None => 8.0,
        })
        .collect();
    let centers = centers(layered, &widths, sizes.len());
    let (tops, heights) = rows(layered, sizes);
    let middle = |item: usize| (centers[item], tops[item] + heights[item] / 2.0);
    let nodes = sizes.iter().enumerate().map(|(node, size)| {
        let (x, y) = middle(node);
        (x - size.0 / 2.0, y - size.1 / 2.0)
    });
    let nodes: Vec<_> = nodes.collect();

    let ports = ports(layered, &centers, sizes);
    let mut edges = Vec::new();
    for (edge, chain) in layered.chains.iter().enumerate() {
        let [first, between @ .., last] = &chain[..] else {
            let node = ends[edge].from;
            edges.push(self_loop(nodes[node], sizes[node]));
            continue;
        };
        let mut points = vec![(ports[edge].0, nodes[*first].1 + sizes[*first].1)];
        for item in between {
            points.push((centers[*item], tops[*item]));
            points.push((centers[*item], tops[*item] + heights[*item]));
        }
        points.push((ports[edge].1, nodes[*last].1));
        if layered.reversed[edge] {
            points.reverse();
        }
        edges.push(points);
    }
    let right = |it: usize| centers[it] + widths[it] / 2.0;
    Coordinates {
        width: (0..layered.n_items).map(right).fold(0.0, f64::max),
        height: (0..layered.n_items).map(|it| tops[it] + heights[it]).fold(0.0, f64::max),
        nodes,
        edges,
    }
}

/// Computes the horizontal centre of each item.
///
/// The layers are processed downwards and upwards in turn. Each item is moved towards its neighbours in the
/// adjacent layer, unless this causes an overlap.
fn centers(layered: &Layered, widths: &[f64], n_nodes: usize) -> Vec<f64> {
    let (up, down) = layered.neighbours();
    let mut centers = vec![0.0; layered.n_items];
    for layer in &layered.layers {
        let targets: Vec<_> = layer.iter().map(|_| (0.0, 1.0)).collect();
        resolve_overlaps(layer, &targets, widths, &mut centers);
    }
    // Straight long edges have priority, so two dummy items attract each other more strongly than other items do.
    let is_dummy = |item: usize| item >= n_nodes;
    let strength = |a: usize, b: usize| match (is_dummy(a), is_dummy(b)) {
        (true, true) => 8.0,
        (false, false) => 1.0,
        _ => 2.0,
    };
    let n_layers = layered.layers.len();
    for sweep in 0..SWEEPS {
        for nth in 0..n_layers {
            let downwards = sweep % 2 == 0;
            let layer = &layered.layers[if downwards { nth } else { n_layers - 1 - nth }];
            let target = |item: usize| {
                let neighbours = match (downwards, sweep + 6 > SWEEPS) {
                    (_, true) => [&up[item][..], &down[item][..]],
                    (true, _) => [&up[item][..], &[]],
                    (false, _) => [&down[item][..], &[]],
                };
                let neighbours = neighbours.into_iter().flatten();
                let (sum, weight) = neighbours.fold((0.0, 0.0), |(sum, weight), neighbour| {
                    let strength = strength(item, *neighbour);
                    (sum + strength * centers[*neighbour], weight + strength)
                });
                if weight > 0.0 { (sum / weight, weight) } else { (centers[item], 0.1) }
            };
            let targets: Vec<_> = layer.iter().map(|it| target(*it)).collect();
            resolve_overlaps(layer, &targets, widths, &mut centers);
        }
    }
    let left = (0..layered.n_items).map(|it| centers[it] - widths[it] / 2.0);
    let left = left.fold(f64::INFINITY, f64::min);
    centers.iter_mut().for_each(|it| *it -= left);
    centers
}

/// Moves the items of a layer as close to their targets as is possible without overlap.
///
/// Neighbours whose targets are too close to each other are placed side by side around the mean of their targets.
/// From then on, they are treated as one group.
fn resolve_overlaps(layer: &[usize], targets: &[(f64, f64)], widths: &[f64], centers: &mut [f64]) {
    struct Group {
        mean: f64,
        weight: f64,
        items: usize,
    }
    // Minimum distance of each item from the first item.
    let mut offsets = Vec::with_capacity(layer.len());
    let mut offset = 0.0;
    for (at, item) in layer.iter().enumerate() {
        if at > 0 {
            offset += (widths[layer[at - 1]] + widths[*item]) / 2.0 + GAP_X;
        }
        offsets.push(offset);
    }
    let mut groups: Vec<Group> = Vec::new();
    for ((target, weight), offset) in targets.iter().zip(&offsets) {
        let mut group = Group { mean: target - offset, weight: *weight, items: 1 };
        while groups.last().is_some_and(|it| it.mean > group.mean) {
            let Some(last) = groups.pop() else { break };
            let weight = last.weight + group.weight;
            group = Group {
                mean: (last.mean * last.weight + group.mean * group.weight) / weight,
                weight,
                items: last.items + group.items,
            };
        }
        groups.push(group);
    }
    let means = groups.iter().flat_map(|it| std::iter::repeat_n(it.mean, it.items));
    for ((item, offset), mean) in layer.iter().zip(offsets).zip(means) {
        centers[*item] = mean + offset;
    }
}

/// Returns, for each item, the top and the height of its layer.
fn rows(layered: &Layered, sizes: &[(f64, f64)]) -> (Vec<f64>, Vec<f64>) {
    let (mut tops, mut heights) = (vec![0.0; layered.n_items], vec![0.0; layered.n_items]);
    let mut top = 0.0;
    for layer in &layered.layers {
        let height =
            layer.iter().filter_map(|it| sizes.get(*it)).map(|it| it.1).fold(0.0, f64::max);
        for item in layer {
            (tops[*item], heights[*item]) = (top, height);
        }
        top += height + GAP_Y;
    }
    (tops, heights)
}

/// Computes the horizontal positions at which each edge leaves its upper node and enters its lower node. The ends
/// of edges are placed side by side and ordered by the position of the other end, so that edges do not cross.
fn ports(layered: &Layered, centers: &[f64], sizes: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut ports = vec![(0.0, 0.0); layered.chains.len()];
    for (node, size) in sizes.iter().enumerate() {
        for leaves in [true, false] {
            let edges = layered.chains.iter().enumerate().filter_map(|(edge, chain)| {
                let (end, next) = match leaves {
                    true => (chain.first()?, chain.get(1)?),
                    false => (chain.last()?, chain.get(chain.len().checked_sub(2)?)?),
                };
                (*end == node).then_some((centers[*next], edge))
            });
            let mut edges: Vec<_> = edges.collect();
            edges.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let gap = MAX_PORT_GAP.min((size.0 - 16.0) / edges.len().max(1) as f64);
            let first = centers[node] - gap * (edges.len().saturating_sub(1)) as f64 / 2.0;
            for (nth, (_, edge)) in edges.into_iter().enumerate() {
                let x = first + gap * nth as f64;
                if leaves { ports[edge].0 = x } else { ports[edge].1 = x }
            }
        }
    }
    ports
}

/// Returns an edge from a node to itself, drawn at the right side of the node, as the four control points of a
/// Bézier curve.
fn self_loop((x, y): (f64, f64), (width, height): (f64, f64)) -> Vec<(f64, f64)> {
    let (right, low, high) = (x + width, y + height * 0.7, y + height * 0.3);
    vec![
        (right, low),
        (right + 1.6 * LOOP_WIDTH, low),
        (right + 1.6 * LOOP_WIDTH, high),
        (right, high),
    ]
}
