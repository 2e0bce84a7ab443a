//! Computes the layout of a drawing.
//!
//! Uses layered graph drawing (Sugiyama's method). Back edges are reversed, and each node is placed one layer below
//! its predecessors. Each layer is ordered to reduce crossings, and then shifted to straighten edges. An expanded
//! subgraph is laid out first and then placed like one large node.
//!
//! The crates that implement this method do not fit. `rust-sugiyama` 0.4 returns no routes for edges, panics on an edge
//! from a node to itself, and may place other nodes above the start. `layout-rs` 0.1 draws two nodes with edges in both
//! directions (such as a model and its tools) with a single line.

mod coordinates;
mod layers;

use std::collections::BTreeMap;

use graph_core::draw::{Drawing, DrawnEdge, DrawnKind, DrawnNode};
use serde::Serialize;

use super::executed_path::{ExecutedPath, NodeActivity};
use layers::{Edge, Layered};

/// Maximum number of nodes. Larger graphs are unreadable and slow to lay out.
const MAX_NODES: usize = 400;
/// Maximum number of edges.
const MAX_EDGES: usize = 1500;

const MARGIN: f64 = 10.0;
/// Height of the title of an expanded subgraph.
const TITLE_HEIGHT: f64 = 26.0;
const LINE_HEIGHT: f64 = 14.0;

/// Lays out a drawing. Returns `None` if the drawing is too large.
pub(super) fn picture(drawing: &Drawing, executed: &ExecutedPath) -> Option<Picture> {
    if drawing.nodes.len() > MAX_NODES || drawing.edges.len() > MAX_EDGES {
        return None;
    }
    let edges = merge_edges(drawing, executed);
    let mut picture = Picture::default();
    let block = layout_block(drawing, &edges, executed, None);
    (picture.width, picture.height) = (round(block.width), round(block.height));
    picture.nodes = block.nodes;
    picture.edges = block.edges;
    Some(picture)
}

/// A drawing with its layout, in pixels.
#[derive(Debug, Default, Serialize)]
pub(super) struct Picture {
    width: i32,
    height: i32,
    nodes: Vec<PlacedNode>,
    edges: Vec<PlacedEdge>,
}

#[derive(Debug, Serialize)]
struct PlacedNode {
    id: String,
    name: String,
    kind: DrawnKind,
    /// Whether the node is an expanded subgraph.
    open: bool,
    marks: Vec<&'static str>,
    x: i32,
    y: i32,
    width: i32,
    height: i32,
    runs: usize,
    failed: bool,
    interrupted: bool,
}

#[derive(Debug, Serialize)]
struct PlacedEdge {
    from: String,
    to: String,
    conditional: bool,
    join: bool,
    sends: bool,
    label: String,
    taken: usize,
    /// Points through which the line passes. The line is vertical at each of them.
    points: Vec<(i32, i32)>,
}

/// All edges from one node to another, merged into a single edge.
#[derive(Debug)]
struct MergedEdge {
    from: String,
    to: String,
    conditional: bool,
    join: bool,
    sends: bool,
    labels: Vec<String>,
    taken: usize,
}

/// A graph and its layout. Coordinates are relative to the upper left corner.
struct Block {
    width: f64,
    height: f64,
    nodes: Vec<PlacedNode>,
    edges: Vec<PlacedEdge>,
}

fn merge_edges(drawing: &Drawing, executed: &ExecutedPath) -> Vec<MergedEdge> {
    let mut all: BTreeMap<(&str, &str), MergedEdge> = BTreeMap::new();
    for edge in &drawing.edges {
        let DrawnEdge { from, to, .. } = edge;
        let merged = all.entry((from, to)).or_insert_with(|| MergedEdge {
            conditional: true,
            ..MergedEdge::new(from, to, executed)
        });
        merged.conditional &= edge.conditional;
        merged.join |= edge.join.is_some();
        merged.sends |= edge.sends;
        merged.labels.extend(edge.label.clone());
    }
    // Adds the edges that commands have taken and that are not in the drawing.
    let known: Vec<_> = drawing.nodes.iter().map(|it| it.id.as_str()).collect();
    for (from, to) in executed.edges.keys() {
        if known.contains(&from.as_str()) && known.contains(&to.as_str()) {
            all.entry((from, to)).or_insert_with(|| MergedEdge::new(from, to, executed));
        }
    }
    all.into_values().collect()
}

impl MergedEdge {
    fn new(from: &str, to: &str, executed: &ExecutedPath) -> Self {
        let ends = (from.to_owned(), to.to_owned());
        let taken = executed.edges.get(&ends).copied().unwrap_or_default();
        let (from, to) = ends;
        Self { from, to, conditional: true, join: false, sends: false, labels: Vec::new(), taken }
    }
}

/// Lays out the nodes inside `parent`, or the nodes on the top level if `parent` is `None`.
fn layout_block(
    drawing: &Drawing,
    edges: &[MergedEdge],
    executed: &ExecutedPath,
    parent: Option<&str>,
) -> Block {
    let nodes: Vec<_> = drawing.nodes.iter().filter(|it| it.parent.as_deref() == parent).collect();
    let index_of = |id: &str| nodes.iter().position(|it| it.id == id);
    let insides: Vec<_> = nodes
        .iter()
        .map(|it| {
            let id = Some(it.id.as_str());
            let is_open = drawing.nodes.iter().any(|it| it.parent.as_deref() == id);
            is_open.then(|| layout_block(drawing, edges, executed, id))
        })
        .collect();
    let sizes: Vec<_> = nodes.iter().zip(&insides).map(|it| size(it.0, it.1.as_ref())).collect();
    let ends = |it: &MergedEdge| {
        Some(Edge { from: index_of(&it.from)?, to: index_of(&it.to)?, conditional: it.conditional })
    };
    let (drawn, ends): (Vec<_>, Vec<_>) =
        edges.iter().filter_map(|it| Some((it, ends(it)?))).unzip();

    let layered = Layered::new(nodes.len(), &ends);
    let placed = coordinates::assign(&layered, &sizes, &ends);
    let mut out = Block {
        width: placed.width + 2.0 * MARGIN,
        height: placed.height + 2.0 * MARGIN,
        nodes: Vec::new(),
        edges: Vec::new(),
    };
    let at = |(x, y): (f64, f64)| (round(x + MARGIN), round(y + MARGIN));
    for (edge, points) in drawn.iter().zip(&placed.edges) {
        out.edges.push(edge.placed(points.iter().map(|it| at(*it)).collect()));
    }
    for (nth, (node, inside)) in nodes.iter().zip(insides).enumerate() {
        let corner = at(placed.nodes[nth]);
        let runs = executed.nodes.get(&node.id).copied().unwrap_or_default();
        out.nodes.push(placed_node(node, inside.is_some(), corner, sizes[nth], runs));
        if let Some(inside) = inside {
            let offset = (sizes[nth].0 - inside.width) / 2.0;
            out.insert(inside, corner.0 + round(offset), corner.1 + round(TITLE_HEIGHT));
        }
    }
    out
}

impl Block {
    /// Inserts the layout of a subgraph at an offset.
    fn insert(&mut self, inside: Self, x: i32, y: i32) {
        self.nodes.extend(inside.nodes.into_iter().map(|it| PlacedNode {
            x: it.x + x,
            y: it.y + y,
            ..it
        }));
        self.edges.extend(inside.edges.into_iter().map(|mut it| {
            for point in &mut it.points {
                *point = (point.0 + x, point.1 + y);
            }
            it
        }));
    }
}

impl MergedEdge {
    fn placed(&self, points: Vec<(i32, i32)>) -> PlacedEdge {
        PlacedEdge {
            from: self.from.clone(),
            to: self.to.clone(),
            conditional: self.conditional,
            join: self.join,
            sends: self.sends,
            label: self.labels.join(", "),
            taken: self.taken,
            points,
        }
    }
}

fn placed_node(
    node: &DrawnNode,
    open: bool,
    (x, y): (i32, i32),
    (width, height): (f64, f64),
    runs: NodeActivity,
) -> PlacedNode {
    PlacedNode {
        id: node.id.clone(),
        name: node.name.clone(),
        kind: node.kind,
        open,
        marks: marks(node),
        x,
        y,
        width: round(width),
        height: round(height),
        runs: runs.count,
        failed: runs.failed,
        interrupted: runs.interrupted,
    }
}

/// Returns the labels for special properties of a node.
fn marks(node: &DrawnNode) -> Vec<&'static str> {
    let marks = [
        (node.deferred, "deferred"),
        (node.stop_before, "stop before"),
        (node.stop_after, "stop after"),
        (node.has_error_handler, "error handler"),
    ];
    marks.into_iter().filter(|it| it.0).map(|it| it.1).collect()
}

fn size(node: &DrawnNode, inside: Option<&Block>) -> (f64, f64) {
    let marks = marks(node);
    let name = text_width(&node.name, 7.6) + 28.0;
    let width = marks.iter().map(|it| text_width(it, 6.2) + 20.0).fold(name, f64::max);
    if let Some(inside) = inside {
        return (width.max(inside.width), inside.height + TITLE_HEIGHT);
    }
    match node.kind {
        DrawnKind::Start | DrawnKind::End => (62.0, 26.0),
        _ => (width.clamp(72.0, 260.0), 32.0 + LINE_HEIGHT * marks.len() as f64),
    }
}

/// Estimates the width of a text. Characters from U+1100 on count as wide.
fn text_width(text: &str, each: f64) -> f64 {
    text.chars().map(|c| if c < '\u{1100}' { each } else { 2.0 * each }).sum()
}

fn round(number: f64) -> i32 {
    number.round() as i32
}
