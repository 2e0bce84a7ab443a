//! Drawings of graphs as data.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    command::route::RouteTarget,
    graph::erased::{Graph, NodeEntry},
    label::{END_NAME, Label, START_NAME},
};

/// The structure of a graph as data: see [`CompiledGraph::drawing`](crate::CompiledGraph::drawing).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Drawing {
    /// START, then the nodes sorted by name, then END if an edge leads there.
    ///
    /// An expanded subgraph is followed by its own nodes, in the same order.
    pub nodes: Vec<DrawnNode>,
    /// The edges, sorted by the positions of their source and target in `nodes`.
    pub edges: Vec<DrawnEdge>,
}

/// A node of a [`Drawing`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DrawnNode {
    /// Unique id: the name, prefixed with the names of the enclosing expanded subgraphs, as in `child:write`.
    pub id: String,
    /// Name of the node.
    pub name: String,
    /// Kind of the node.
    pub kind: DrawnKind,
    /// Whether the node is deferred until no other node is scheduled.
    pub deferred: bool,
    /// Whether runs stop before the node.
    pub stop_before: bool,
    /// Whether runs stop after the node.
    pub stop_after: bool,
    /// Whether the node has an error handler.
    pub has_error_handler: bool,
    /// Metadata that was attached to the node when the graph was built.
    pub metadata: Map<String, Value>,
    /// Where the subgraph runs, such as `sandbox`. `None` if it runs in the process of its parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs_in: Option<String>,
    /// Id of the enclosing expanded subgraph, or `None` at the top level.
    pub parent: Option<String>,
}

/// The kind of a [`DrawnNode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DrawnKind {
    /// START of a graph.
    Start,
    /// END of a graph.
    End,
    /// A node with a function.
    Node,
    /// A subgraph, expanded or collapsed.
    Subgraph,
}

/// An edge of a [`Drawing`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DrawnEdge {
    /// Id of the source.
    pub from: String,
    /// Id of the target.
    pub to: String,
    /// Whether a branch or a command decides if the edge is followed.
    pub conditional: bool,
    /// Name of the route variant, or `None` if it equals the target's name apart from case and underscores.
    pub label: Option<String>,
    /// Number of the join that the edge belongs to. The target runs after the sources of all edges
    /// with the same number have run.
    pub join: Option<usize>,
    /// Whether the edge sends a payload to the target.
    pub sends: bool,
}

impl Drawing {
    pub(super) fn of(graph: &Graph, depth: usize) -> Self {
        let mut drawing = Self::default();
        drawing.add(graph, depth, None);
        let mut edges = std::mem::take(&mut drawing.edges);
        let positions = drawing.positions();
        edges.sort_by_cached_key(|it| {
            let endpoints = (positions.get(it.from.as_str()), positions.get(it.to.as_str()));
            (endpoints, it.conditional, it.join, it.label.clone(), it.sends)
        });
        edges.dedup();
        Self { edges, ..drawing }
    }

    /// Adds the nodes and edges of a graph. `parent` is the id of the subgraph node that contains the graph.
    fn add(&mut self, graph: &Graph, depth: usize, parent: Option<&str>) {
        let first_join = self.edges.iter().filter_map(|it| it.join).max().map_or(0, |it| it + 1);
        let n_edges = self.edges.len();
        for entry in &graph.nodes {
            self.edges.extend(edges_of(graph, entry, first_join, parent, depth > 0));
        }
        let end = id(parent, END_NAME);
        let leads_to_end = self.edges[n_edges..].iter().any(|it| it.to == end);

        self.nodes.push(DrawnNode::plain(START_NAME, DrawnKind::Start, parent));
        for entry in graph.nodes.iter().filter(|it| it.body.is_some()) {
            let node = DrawnNode::of(graph, entry, parent);
            let id = node.id.clone();
            self.nodes.push(node);
            if let Some(inner) = entry.subgraph.as_ref().filter(|_| depth > 0) {
                self.add(&inner.graph, depth - 1, Some(&id));
            }
        }
        if leads_to_end {
            self.nodes.push(DrawnNode::plain(END_NAME, DrawnKind::End, parent));
        }
    }

    /// Returns the position of each node in `nodes`, keyed by the node's id.
    pub(super) fn positions(&self) -> BTreeMap<&str, usize> {
        self.nodes.iter().enumerate().map(|(at, node)| (node.id.as_str(), at)).collect()
    }

    /// Returns the nodes directly inside the expanded subgraph `parent`, each with its position. If `parent` is `None`,
    /// returns the top-level nodes.
    pub(super) fn children<'a>(
        &'a self,
        parent: Option<&'a str>,
    ) -> impl Iterator<Item = (usize, &'a DrawnNode)> {
        self.nodes.iter().enumerate().filter(move |(_, it)| it.parent.as_deref() == parent)
    }

    /// Returns the positions of the first and the last node inside an expanded subgraph, or `None` if the node is not
    /// an expanded subgraph. The first node is the subgraph's START. The last node is its END, if it has one.
    pub(super) fn first_and_last_inside(&self, node: usize) -> Option<(usize, usize)> {
        let prefix = id(Some(&self.nodes[node].id), "");
        let rest = &self.nodes[node + 1..];
        let n_inside = rest.iter().take_while(|it| it.id.starts_with(&prefix)).count();
        (n_inside > 0).then_some((node + 1, node + n_inside))
    }

    /// Returns the text to display next to an edge.
    pub(super) fn caption(&self, edge: &DrawnEdge) -> Option<String> {
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
        let kind = if entry.subgraph.is_some() { DrawnKind::Subgraph } else { DrawnKind::Node };
        Self {
            runs_in: entry.subgraph.as_ref().and_then(|it| it.runs_in.clone()),
            deferred: entry.options.defer,
            stop_before: graph.stop_before.contains(&entry.label),
            stop_after: graph.stop_after.contains(&entry.label),
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
            runs_in: None,
            parent: parent.map(str::to_owned),
        }
    }

    /// Returns the lines of the node's label: its name, then one line per flag and per metadata entry.
    pub(super) fn label_lines(&self) -> Vec<String> {
        let flags = [
            (self.deferred, "deferred"),
            (self.stop_before, "stop before"),
            (self.stop_after, "stop after"),
            (self.has_error_handler, "error handler"),
        ];
        let flags = flags.iter().filter(|it| it.0).map(|it| it.1.to_owned());
        let metadata = self.metadata.iter().map(|(key, value)| match value {
            Value::String(text) => format!("{key}: {text}"),
            value => format!("{key}: {value}"),
        });
        let runs_in = self.runs_in.iter().map(|it| format!("runs in a {it}"));
        [self.name.clone()].into_iter().chain(runs_in).chain(flags).chain(metadata).collect()
    }

    pub(super) fn to_json(&self) -> Value {
        let mut node = json!({
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
        });
        if let Some(runs_in) = &self.runs_in {
            node["data"]["runs_in"] = json!(runs_in);
        }
        node
    }
}

impl DrawnEdge {
    pub(super) fn to_json(&self) -> Value {
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

/// Returns the outgoing edges of a node. Commands from inside an expanded subgraph start at the node that sends them.
fn edges_of(
    graph: &Graph,
    entry: &NodeEntry,
    first_join: usize,
    parent: Option<&str>,
    expanded: bool,
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
        label: distinct_variant_name(&target.variant, &target.to),
        sends: target.sends,
        ..plain(target.to.as_str())
    };
    let name = |node: &u32| graph.node(*node).label.as_str();

    let mut edges: Vec<_> = entry.edges.iter().map(|it| plain(name(it))).collect();
    edges.extend(entry.leads_to_end.then(|| plain(END_NAME)));
    edges.extend(entry.outgoing_joins.iter().map(|it| DrawnEdge {
        join: Some(first_join + it),
        ..plain(graph.joins[*it].target.as_ref().map_or(END_NAME, name))
    }));
    for router in &entry.routers {
        match &router.targets {
            Some(targets) => edges.extend(targets.iter().map(route)),
            None => edges.extend(all_targets(graph).iter().map(route)),
        }
    }
    edges.extend(entry.targets.own.iter().flatten().map(route));
    for sender in entry.inner_nodes() {
        let subgraph = id(parent, entry.label.as_str());
        let from = if expanded { id(Some(&subgraph), sender.label.as_str()) } else { subgraph };
        let targets = sender.targets.parent.iter().flatten();
        edges.extend(targets.map(|it| DrawnEdge { from: from.clone(), ..route(it) }));
    }
    edges
}

/// Returns all nodes and END as targets, for a router whose targets are only known at run time.
fn all_targets(graph: &Graph) -> Vec<RouteTarget> {
    let target = |to: &Label, sends| RouteTarget { to: to.clone(), variant: to.clone(), sends };
    let bodies = graph.nodes.iter().filter_map(|it| Some((&it.label, it.body.as_ref()?)));
    let nodes = bodies.map(|(label, body)| target(label, body.0.requires_payload()));
    nodes.chain([target(&Label::from(END_NAME), false)]).collect()
}

/// Returns the variant's name, unless it equals the target's name apart from case and underscores.
///
/// For example, `DeepDive` equals `deep_dive`, and `End` equals `__end__`.
fn distinct_variant_name(variant: &Label, to: &Label) -> Option<String> {
    let normalise = |label: &Label| label.as_str().replace('_', "").to_lowercase();
    let is_distinct = !variant.as_str().trim().is_empty() && normalise(variant) != normalise(to);
    is_distinct.then(|| variant.to_string())
}

/// Returns the id of a node. Ids are unique, because names do not contain `:`.
fn id(parent: Option<&str>, name: &str) -> String {
    parent.map_or_else(|| name.to_owned(), |parent| format!("{parent}:{name}"))
}

/// Replaces a control character with a visible symbol.
pub(super) fn visible(c: char) -> char {
    match c {
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}
