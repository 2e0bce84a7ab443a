//! A node that chooses the next one with a command.

use graph_core::{
    Command, END, Goto, JsonFieldKind, JsonState, JsonStateSchema, START, StateGraph, json_node,
};
use graph_server::langgraph::Graphs;
use serde_json::{Value, json};

use super::support::{Result, schemas, strings};

pub(super) fn add(graphs: Graphs) -> Result<Graphs> {
    let state =
        JsonStateSchema::new([("n", JsonFieldKind::Last), ("path", JsonFieldKind::Append)])?;
    let schema = state.clone();
    let decide = json_node("decide", move |input, _| {
        let schema = schema.clone();
        async move {
            let n = input.get("n").and_then(Value::as_i64).unwrap_or_default();
            let target = if n % 2 == 0 { "even" } else { "odd" };
            let update = schema.update(json!({ "path": ["decide"] }))?;
            Ok(Command::new(update, vec![Goto::node(target)]))
        }
    });
    let graph = append(append(state.graph(), "even"), "odd")
        .node(decide.destinations(["even", "odd"]))
        .edge(START, "decide")
        .edge("even", END)
        .edge("odd", END);
    let properties = json!({ "n": { "type": "integer" }, "path": strings() });
    Ok(graphs.add("route", graph, schemas("route", &properties))?)
}

/// Adds a node that appends its name to the path.
fn append(graph: StateGraph<JsonState>, name: &'static str) -> StateGraph<JsonState> {
    graph.node(json_node(name, move |_, _| async move { Ok(json!({ "path": [name] })) }))
}
