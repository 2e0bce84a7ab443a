//! Drawings: a compiled graph as data, as Mermaid and as DOT.
//!
//! A drawing shows what the graph declares, without running it.
//! A node's commands that say where they go only when they run are therefore not in it.

mod dot;
mod mermaid;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_128;

use super::{Graph, NodeEntry};
use crate::{
    CompiledGraph, State,
    command::RouteTarget,
    label::{END_NAME, Label, START_NAME},
};

impl<S: State, C: Send + Sync + 'static> CompiledGraph<S, C> {
    /// Draws the graph as data, with its subgraphs opened `depth` levels deep.
    pub fn drawing(&self, depth: usize) -> Drawing {
        Drawing::of(self.erased(), depth)
    }

    /// Draws the graph as a Mermaid flowchart, with its subgraphs closed.
    ///
    /// Dotted edges are taken only if a branch or a command chooses them; thick ones wait for each other.
    ///
    /// ```
    /// use graph_core::{END, START, State, StateGraph};
    ///
    /// #[derive(State, Clone, Debug, Default)]
    /// struct Essay {
    ///     topic: String,
    /// }
    ///
    /// async fn write(_: &Essay) {}
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let graph = StateGraph::<Essay>::new().node(write).edge(START, write).edge(write, END).compile()?;
    /// let expected = r#"flowchart TD
    ///     n0(["__start__"])
    ///     n1["write"]
    ///     n2(["__end__"])
    ///     n0 --> n1
    ///     n1 --> n2
    /// "#;
    /// assert_eq!(graph.mermaid(), expected);
    /// # Ok(())
    /// # }
    /// ```
    pub fn mermaid(&self) -> String {
        self.mermaid_open(0)
    }

    /// Draws the graph as a Mermaid flowchart, with its subgraphs opened `depth` levels deep.
    pub fn mermaid_open(&self, depth: usize) -> String {
        mermaid::text(&self.drawing(depth))
    }

    /// Draws the graph in Graphviz's DOT language, with its subgraphs opened `depth` levels deep.
    pub fn dot(&self, depth: usize) -> String {
        dot::text(&self.drawing(depth))
    }

    /// A hash of what the graph declares: its nodes, edges and branches, its state's fields, its subgraphs.
    ///
    /// The same for the same graph in every build; what the nodes' functions do is not part of it.
    pub fn identity(&self) -> String {
        let fields = self.erased().initial.fields().iter().map(|it| it.name.to_string());
        let declared = json!({ "graph": self.drawing(32), "fields": fields.collect::<Vec<_>>() });
        format!("{:032x}", xxh3_128(declared.to_string().as_bytes()))
    }

    /// Draws the graph as JSON in the shape that LangGraph's `to_json` has.
    ///
    /// Subgraphs are opened `depth` levels deep.
    pub fn to_json(&self, depth: usize) -> Value {
        let drawing = self.drawing(depth);
        json!({
            "nodes": drawing.nodes.iter().map(DrawnNode::to_json).collect::<Vec<_>>(),
            "edges": drawing.edges.iter().map(DrawnEdge::to_json).collect::<Vec<_>>(),
        })
    }
}

/// The picture of a graph as data: see [`CompiledGraph::drawing`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Drawing {
    /// START, then the nodes by name, then END if anything leads there.
    ///
    /// An opened subgraph is followed by the nodes inside it, in the same order.
    pub nodes: Vec<DrawnNode>,
    /// The edges, in the order of the nodes they come from and lead to.
    pub edges: Vec<DrawnEdge>,
}

/// A node of a [`Drawing`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DrawnNode {
    /// The name, behind the names of the opened subgraphs around it: `child:write`.
    pub id: String,
    /// The name.
    pub name: String,
    /// What it is.
    pub kind: DrawnKind,
    /// Whether it is held back until nothing else would run.
    pub deferred: bool,
    /// Whether a run stops before it.
    pub stop_before: bool,
    /// Whether a run stops after it.
    pub stop_after: bool,
    /// Whether another node steps in once it has failed for good.
    pub has_error_handler: bool,
    /// What was noted about it.
    pub metadata: Map<String, Value>,
    /// The id of the opened subgraph it is in.
    pub parent: Option<String>,
}

/// What a [`DrawnNode`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DrawnKind {
    /// Where runs enter.
    Start,
    /// Where paths end.
    End,
    /// A node of its own.
    Node,
    /// A graph as a node, opened or closed.
    Subgraph,
}

/// An edge of a [`Drawing`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DrawnEdge {
    /// The id of the node it comes from.
    pub from: String,
    /// The id of the node it leads to.
    pub to: String,
    /// Whether a branch or a command decides if it is taken.
    pub conditional: bool,
    /// What the choice is called, where that is not just the name of the node it leads to.
    pub label: Option<String>,
    /// The join it belongs to: edges of one number wait for each other.
    pub join: Option<usize>,
    /// Whether the node it leads to is sent a payload.
    pub sends: bool,
}

impl Drawing {
    fn of(graph: &Graph, depth: usize) -> Self {
        let mut drawing = Self::default();
        drawing.add(graph, depth, None);
        let mut edges = std::mem::take(&mut drawing.edges);
        let positions = drawing.positions();
        edges.sort_by_cached_key(|it| {
            let ends = (positions.get(it.from.as_str()), positions.get(it.to.as_str()));
            (ends, it.conditional, it.join, it.label.clone(), it.sends)
        });
        edges.dedup();
        Self { edges, ..drawing }
    }

    /// Adds a graph whose nodes are inside `parent`.
    fn add(&mut self, graph: &Graph, depth: usize, parent: Option<&str>) {
        let first_join = self.edges.iter().filter_map(|it| it.join).max().map_or(0, |it| it + 1);
        let n_edges = self.edges.len();
        for entry in &graph.nodes {
            self.edges.extend(edges_of(graph, entry, first_join, parent));
        }
        let end = id(parent, END_NAME);
        let ends = self.edges[n_edges..].iter().any(|it| it.to == end);

        self.nodes.push(DrawnNode::plain(START_NAME, DrawnKind::Start, parent));
        for entry in graph.nodes.iter().filter(|it| it.body.is_some()) {
            let node = DrawnNode::of(graph, entry, parent);
            let id = node.id.clone();
            self.nodes.push(node);
            let inner = entry.body.as_ref().and_then(|it| it.0.subgraph());
            if let Some(inner) = inner.filter(|_| depth > 0) {
                self.add(inner.graph, depth - 1, Some(&id));
            }
        }
        if ends {
            self.nodes.push(DrawnNode::plain(END_NAME, DrawnKind::End, parent));
        }
    }

    /// Where each node stands among the nodes, by its id.
    fn positions(&self) -> BTreeMap<&str, usize> {
        self.nodes.iter().enumerate().map(|(at, node)| (node.id.as_str(), at)).collect()
    }

    /// The nodes directly inside an opened subgraph, or of the whole graph, with their positions.
    fn inside<'a>(
        &'a self,
        parent: Option<&'a str>,
    ) -> impl Iterator<Item = (usize, &'a DrawnNode)> {
        self.nodes.iter().enumerate().filter(move |(_, it)| it.parent.as_deref() == parent)
    }

    /// The first and the last node inside an opened subgraph: its START, and its END if it has one.
    fn doors(&self, node: usize) -> Option<(usize, usize)> {
        let inside = id(Some(&self.nodes[node].id), "");
        let rest = &self.nodes[node + 1..];
        let n_inside = rest.iter().take_while(|it| it.id.starts_with(&inside)).count();
        (n_inside > 0).then_some((node + 1, node + n_inside))
    }

    /// What an edge says beyond where it leads.
    fn caption(&self, edge: &DrawnEdge) -> Option<String> {
        if let Some(join) = edge.join {
            let mut joins = self.edges.iter().filter(|it| it.to == edge.to && it.join.is_some());
            let several = joins.any(|it| it.join != edge.join);
            return several.then(|| format!("join {}", join + 1));
        }
        match &edge.label {
            Some(label) if edge.sends => Some(format!("{label}, sends")),
            None if edge.sends => Some("sends".to_owned()),
            label => label.clone(),
        }
    }
}

impl DrawnNode {
    fn of(graph: &Graph, entry: &NodeEntry, parent: Option<&str>) -> Self {
        let is_graph = entry.body.as_ref().is_some_and(|it| it.0.subgraph().is_some());
        let kind = if is_graph { DrawnKind::Subgraph } else { DrawnKind::Node };
        Self {
            deferred: entry.options.defer,
            stop_before: graph.stop_before.holds(&entry.label),
            stop_after: graph.stop_after.holds(&entry.label),
            has_error_handler: entry.options.handler.is_some(),
            metadata: entry.options.metadata.clone(),
            ..Self::plain(entry.label.as_str(), kind, parent)
        }
    }

    fn plain(name: &str, kind: DrawnKind, parent: Option<&str>) -> Self {
        Self {
            id: id(parent, name),
            name: name.to_owned(),
            kind,
            deferred: false,
            stop_before: false,
            stop_after: false,
            has_error_handler: false,
            metadata: Map::new(),
            parent: parent.map(str::to_owned),
        }
    }

    /// The name, and a line for each thing that is special about the node.
    fn lines(&self) -> Vec<String> {
        let marks = [
            (self.deferred, "deferred"),
            (self.stop_before, "stop before"),
            (self.stop_after, "stop after"),
            (self.has_error_handler, "error handler"),
        ];
        let marks = marks.iter().filter(|it| it.0).map(|it| it.1.to_owned());
        let notes = self.metadata.iter().map(|(key, value)| match value {
            Value::String(text) => format!("{key}: {text}"),
            value => format!("{key}: {value}"),
        });
        [self.name.clone()].into_iter().chain(marks).chain(notes).collect()
    }

    fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "type": self.kind,
            "data": {
                "name": self.name,
                "parent": self.parent,
                "deferred": self.deferred,
                "stop_before": self.stop_before,
                "stop_after": self.stop_after,
                "has_error_handler": self.has_error_handler,
            },
            "metadata": self.metadata,
        })
    }
}

impl DrawnEdge {
    fn to_json(&self) -> Value {
        let mut edge = json!({
            "source": self.from,
            "target": self.to,
            "conditional": self.conditional,
            "sends": self.sends,
        });
        if let Some(label) = &self.label {
            edge["data"] = json!(label);
        }
        if let Some(join) = self.join {
            edge["join"] = json!(join);
        }
        edge
    }
}

/// All that leads out of a node.
fn edges_of(
    graph: &Graph,
    entry: &NodeEntry,
    first_join: usize,
    parent: Option<&str>,
) -> Vec<DrawnEdge> {
    let plain = |to: &str| DrawnEdge {
        from: id(parent, entry.label.as_str()),
        to: id(parent, to),
        conditional: false,
        label: None,
        join: None,
        sends: false,
    };
    let route = |target: &RouteTarget| DrawnEdge {
        conditional: true,
        label: telling(&target.variant, &target.to),
        sends: target.sends,
        ..plain(target.to.as_str())
    };
    let name = |node: &u32| graph.node(*node).label.as_str();

    let mut edges: Vec<_> = entry.edges.iter().map(|it| plain(name(it))).collect();
    edges.extend(entry.ends.then(|| plain(END_NAME)));
    edges.extend(entry.feeds.iter().map(|it| DrawnEdge {
        join: Some(first_join + it),
        ..plain(graph.joins[*it].target.as_ref().map_or(END_NAME, name))
    }));
    for router in &entry.routers {
        match &router.targets {
            Some(targets) => edges.extend(targets.iter().map(route)),
            None => edges.extend(anywhere(graph).iter().map(route)),
        }
    }
    edges.extend(entry.targets.iter().flatten().map(route));
    edges
}

/// Every place there is, for a router that may lead to any of them.
fn anywhere(graph: &Graph) -> Vec<RouteTarget> {
    let target = |to: &Label, sends| RouteTarget { to: to.clone(), variant: to.clone(), sends };
    let bodies = graph.nodes.iter().filter_map(|it| Some((&it.label, it.body.as_ref()?)));
    let nodes = bodies.map(|(label, body)| target(label, body.0.wants_payload()));
    nodes.chain([target(&Label::from(END_NAME), false)]).collect()
}

/// A variant's name, unless it says no more than the name of the node it leads to.
///
/// `DeepDive` says no more than `deep_dive`, and `End` no more than END.
fn telling(variant: &Label, to: &Label) -> Option<String> {
    let plain = |label: &Label| label.as_str().replace('_', "").to_lowercase();
    let tells = !variant.as_str().trim().is_empty() && plain(variant) != plain(to);
    tells.then(|| variant.to_string())
}

/// The id of a node; no name holds a `:`, so no two nodes share one.
fn id(parent: Option<&str>, name: &str) -> String {
    parent.map_or_else(|| name.to_owned(), |parent| format!("{parent}:{name}"))
}

/// Something to see in place of a character that moves the cursor instead of showing.
fn visible(c: char) -> char {
    match c {
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}
