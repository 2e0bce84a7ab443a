//! A graph with a subgraph over the same state.

use graph_core::{END, JsonState, Persistence, START, StateGraph, json::json_subgraph, json_node};
use graph_server::langgraph::Graphs;
use serde_json::json;

use super::support::{Result, log_state, schemas, strings};

pub(super) fn add(graphs: Graphs) -> Result<Graphs> {
    let state = log_state()?;
    let child = state.graph();
    let child = append(append(child, "c1"), "c2");
    let child = child.edge(START, "c1").edge("c1", "c2").edge("c2", END).compile()?;
    let graph = append(append(state.graph(), "p0"), "p9")
        .node(json_subgraph("child", &child, Persistence::Invocation))
        .edge(START, "p0")
        .edge("p0", "child")
        .edge("child", "p9")
        .edge("p9", END);
    let state = |name| schemas(name, &json!({ "log": strings() }));
    Ok(graphs.add("parent", graph, state("parent").with_subgraph("child", state("child")))?)
}

/// Adds a node that appends its name to the log.
fn append(graph: StateGraph<JsonState>, name: &'static str) -> StateGraph<JsonState> {
    graph.node(json_node(name, move |_, _| async move { Ok(json!({ "log": [name] })) }))
}
