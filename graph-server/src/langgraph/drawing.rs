//! JSON encoding of graph drawings.

use std::collections::BTreeMap;

use graph_core::draw::{Drawing, DrawnKind};
use serde_json::{Value, json};

/// Encodes a drawing. The nodes are in the order in which a run reaches them, because that is the order in which they
/// are usually declared. An expanded subgraph is replaced by its nodes, as in LangGraph. `runs_in` contains the ids of
/// the subgraphs that run outside the process of their parent, with the places in which they run.
pub(super) fn drawing_json(drawing: &Drawing) -> Value {
    let is_expanded = |id: &str| drawing.nodes.iter().any(|it| it.parent.as_deref() == Some(id));
    let is_inner_end = |id: &str| {
        let node = drawing.nodes.iter().find(|it| it.id == id);
        node.is_some_and(|it| {
            it.parent.is_some() && matches!(it.kind, DrawnKind::Start | DrawnKind::End)
        })
    };
    let nodes = drawing.nodes.iter().filter(|it| !is_expanded(&it.id) && !is_inner_end(&it.id));
    let mut nodes: Vec<_> = nodes
        .map(|node| match node.kind {
            DrawnKind::End => json!({ "id": node.id }),
            _ => {
                let mut shown =
                    json!({ "id": node.id, "type": "runnable", "data": { "name": node.id } });
                if !node.metadata.is_empty() {
                    shown["metadata"] = json!(node.metadata);
                }
                shown
            }
        })
        .collect();
    // An edge to an expanded subgraph leads to its first nodes, and an edge from it starts at its last nodes.
    let firsts = |id: &str| first_nodes(drawing, id);
    let lasts = |id: &str| last_nodes(drawing, id);
    let mut edges = Vec::new();
    for edge in &drawing.edges {
        if is_inner_end(&edge.from) || is_inner_end(&edge.to) {
            continue;
        }
        for from in
            if is_expanded(&edge.from) { lasts(&edge.from) } else { vec![edge.from.clone()] }
        {
            for to in if is_expanded(&edge.to) { firsts(&edge.to) } else { vec![edge.to.clone()] } {
                let mut shown = json!({ "source": from, "target": to });
                if edge.conditional {
                    shown["conditional"] = json!(true);
                }
                if let Some(label) = &edge.label {
                    shown["data"] = json!(label);
                }
                edges.push(shown);
            }
        }
    }
    let order = running_order(&edges);
    nodes.sort_by_cached_key(|node| {
        let position = order.iter().position(|it| node["id"] == *it);
        position.filter(|_| node["id"] != "__end__").unwrap_or(order.len())
    });
    let mut shown = json!({ "nodes": nodes, "edges": edges });
    let runs_in = drawing.nodes.iter().filter_map(|it| Some((&it.id, it.runs_in.as_ref()?)));
    let runs_in: BTreeMap<_, _> = runs_in.collect();
    if !runs_in.is_empty() {
        shown["runs_in"] = json!(runs_in);
    }
    shown
}

/// Returns the nodes in the order in which a run can reach them from START.
fn running_order(edges: &[Value]) -> Vec<&str> {
    let mut order = vec!["__start__"];
    let mut next = 0;
    while let Some(source) = order.get(next).copied() {
        next += 1;
        for edge in edges.iter().filter(|it| it["source"] == source) {
            let target = edge["target"].as_str().unwrap_or_default();
            if !order.contains(&target) {
                order.push(target);
            }
        }
    }
    order
}

fn first_nodes(drawing: &Drawing, subgraph: &str) -> Vec<String> {
    let start = format!("{subgraph}:__start__");
    let targets = drawing.edges.iter().filter(|it| it.from == start).map(|it| it.to.clone());
    expand(drawing, targets, first_nodes)
}

fn last_nodes(drawing: &Drawing, subgraph: &str) -> Vec<String> {
    let end = format!("{subgraph}:__end__");
    let sources = drawing.edges.iter().filter(|it| it.to == end).map(|it| it.from.clone());
    expand(drawing, sources, last_nodes)
}

/// Replaces nested expanded subgraphs by their own first or last nodes.
fn expand(
    drawing: &Drawing,
    nodes: impl Iterator<Item = String>,
    inside: fn(&Drawing, &str) -> Vec<String>,
) -> Vec<String> {
    let is_expanded = |id: &str| drawing.nodes.iter().any(|it| it.parent.as_deref() == Some(id));
    nodes.flat_map(|id| if is_expanded(&id) { inside(drawing, &id) } else { vec![id] }).collect()
}

#[cfg(test)]
mod tests {
    use graph_core::{START, State, StateGraph, runs_graph};

    use super::*;

    #[derive(State, Clone, Debug, Default)]
    struct Text {
        text: String,
    }

    async fn write(_: &Text) {}

    async fn delegate(_: &Text) {}

    #[test]
    fn nodes_are_listed_in_the_order_in_which_they_run() {
        let graph = StateGraph::<Text>::new().node(delegate).node(write);
        let graph = graph.edge(START, write).edge(write, delegate).compile().unwrap();
        let shown = drawing_json(&graph.drawing(0));
        let nodes = shown["nodes"].as_array().unwrap().iter().map(|it| &it["id"]);
        assert_eq!(nodes.collect::<Vec<_>>(), ["__start__", "write", "delegate"], "{shown}");
    }

    #[test]
    fn drawings_show_where_subgraphs_run() {
        let inner = StateGraph::<Text>::new().node(write).edge(START, write).compile().unwrap();
        assert_eq!(drawing_json(&inner.drawing(1)).get("runs_in"), None);
        let node = runs_graph(delegate, &inner).runs_in("sandbox");
        let graph = StateGraph::<Text>::new().node(node).edge(START, delegate).compile().unwrap();
        for depth in [0, 1] {
            let shown = drawing_json(&graph.drawing(depth));
            assert_eq!(shown["runs_in"], json!({ "delegate": "sandbox" }), "{shown}");
        }
    }
}
