//! Where the nodes and edges of a drawing go on the page.
//!
//! The usual way to draw a graph that mostly leads one way: edges that lead back are turned round, each node is put
//! one layer below what leads to it, each layer is ordered so that few edges cross, and then moved so that edges are
//! straight. An opened subgraph is drawn first and takes its place as one large node.

mod layers;
mod place;

use std::collections::BTreeMap;

use graph_core::draw::{Drawing, DrawnEdge, DrawnKind, DrawnNode};
use serde::Serialize;

use super::lit::{Lit, Runs};
use layers::{Edge, Layered};

/// More than this cannot be read, and takes long to lay out.
const MAX_NODES: usize = 400;
const MAX_EDGES: usize = 1500;

const MARGIN: f64 = 10.0;
/// The room that the name of an opened subgraph takes.
const TITLE: f64 = 26.0;
const LINE: f64 = 14.0;

/// A drawing, laid out. `None` where it is too large to be of use.
pub(super) fn picture(drawing: &Drawing, lit: &Lit) -> Option<Picture> {
    if drawing.nodes.len() > MAX_NODES || drawing.edges.len() > MAX_EDGES {
        return None;
    }
    let edges = merged(drawing, lit);
    let mut picture = Picture::default();
    let block = block(drawing, &edges, lit, None);
    (picture.width, picture.height) = (round(block.width), round(block.height));
    picture.nodes = block.nodes;
    picture.edges = block.edges;
    Some(picture)
}

/// A laid out drawing, in pixels.
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
    /// Whether the nodes inside are drawn too.
    open: bool,
    marks: Vec<&'static str>,
    x: i32,
    y: i32,
    width: i32,
    height: i32,
    runs: usize,
    failed: bool,
    asked: bool,
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
    /// The points it goes through; it is vertical at each of them.
    points: Vec<(i32, i32)>,
}

/// All edges from one node to another, as one.
#[derive(Debug)]
struct Merged {
    from: String,
    to: String,
    conditional: bool,
    join: bool,
    sends: bool,
    labels: Vec<String>,
    taken: usize,
}

/// A graph that is laid out, its corner at nought.
struct Block {
    width: f64,
    height: f64,
    nodes: Vec<PlacedNode>,
    edges: Vec<PlacedEdge>,
}

fn merged(drawing: &Drawing, lit: &Lit) -> Vec<Merged> {
    let mut all: BTreeMap<(&str, &str), Merged> = BTreeMap::new();
    for edge in &drawing.edges {
        let DrawnEdge { from, to, .. } = edge;
        let merged = all
            .entry((from, to))
            .or_insert_with(|| Merged { conditional: true, ..Merged::new(from, to, lit) });
        merged.conditional &= edge.conditional;
        merged.join |= edge.join.is_some();
        merged.sends |= edge.sends;
        merged.labels.extend(edge.label.clone());
    }
    // Commands may lead where no edge does.
    let known: Vec<_> = drawing.nodes.iter().map(|it| it.id.as_str()).collect();
    for (from, to) in lit.edges.keys() {
        if known.contains(&from.as_str()) && known.contains(&to.as_str()) {
            all.entry((from, to)).or_insert_with(|| Merged::new(from, to, lit));
        }
    }
    all.into_values().collect()
}

impl Merged {
    fn new(from: &str, to: &str, lit: &Lit) -> Self {
        let ends = (from.to_owned(), to.to_owned());
        let taken = lit.edges.get(&ends).copied().unwrap_or_default();
        let (from, to) = ends;
        Self { from, to, conditional: true, join: false, sends: false, labels: Vec::new(), taken }
    }
}

/// Lays out the nodes inside `parent`, or those of the whole graph.
fn block(drawing: &Drawing, edges: &[Merged], lit: &Lit, parent: Option<&str>) -> Block {
    let nodes: Vec<_> = drawing.nodes.iter().filter(|it| it.parent.as_deref() == parent).collect();
    let place = |id: &str| nodes.iter().position(|it| it.id == id);
    let insides: Vec<_> = nodes
        .iter()
        .map(|it| {
            let id = Some(it.id.as_str());
            let is_open = drawing.nodes.iter().any(|it| it.parent.as_deref() == id);
            is_open.then(|| block(drawing, edges, lit, id))
        })
        .collect();
    let sizes: Vec<_> = nodes.iter().zip(&insides).map(|it| size(it.0, it.1.as_ref())).collect();
    let ends = |it: &Merged| {
        Some(Edge { from: place(&it.from)?, to: place(&it.to)?, chosen: it.conditional })
    };
    let (drawn, ends): (Vec<_>, Vec<_>) =
        edges.iter().filter_map(|it| Some((it, ends(it)?))).unzip();

    let layered = Layered::new(nodes.len(), &ends);
    let placed = place::place(&layered, &sizes, &ends);
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
        let runs = lit.nodes.get(&node.id).copied().unwrap_or_default();
        out.nodes.push(placed_node(node, inside.is_some(), corner, sizes[nth], runs));
        if let Some(inside) = inside {
            let room = (sizes[nth].0 - inside.width) / 2.0;
            out.take(inside, corner.0 + round(room), corner.1 + round(TITLE));
        }
    }
    out
}

impl Block {
    /// Takes in what is drawn inside one of its nodes.
    fn take(&mut self, inside: Self, x: i32, y: i32) {
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

impl Merged {
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
    runs: Runs,
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
        asked: runs.asked,
    }
}

/// What is special about a node.
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
        return (width.max(inside.width), inside.height + TITLE);
    }
    match node.kind {
        DrawnKind::Start | DrawnKind::End => (62.0, 26.0),
        _ => (width.clamp(72.0, 260.0), 32.0 + LINE * marks.len() as f64),
    }
}

/// About how wide a text is; characters beyond Latin are taken for wide ones.
fn text_width(text: &str, each: f64) -> f64 {
    text.chars().map(|c| if c < '\u{1100}' { each } else { 2.0 * each }).sum()
}

fn round(number: f64) -> i32 {
    number.round() as i32
}
