//! Two nodes that write every kind of field.

use graph_core::{END, JsonFieldKind, JsonStateSchema, START, json::JsonInput, json_node};
use graph_server::langgraph::Graphs;
use serde_json::{Value, json};

use super::support::{Result, schemas, strings};

pub(super) fn add(graphs: Graphs) -> Result<Graphs> {
    let state = JsonStateSchema::new([
        ("value", JsonFieldKind::Last),
        ("log", JsonFieldKind::Append),
        ("count", JsonFieldKind::Sum),
    ])?;
    let graph = state
        .graph()
        .node(json_node("a", |input, _| async move { Ok(update(&input, "a")) }))
        .node(json_node("b", |input, _| async move { Ok(update(&input, "b")) }))
        .edge(START, "a")
        .edge("a", "b")
        .edge("b", END);
    let properties = json!({
        "value": { "type": "string" },
        "log": strings(),
        "count": { "type": "integer" },
    });
    Ok(graphs.add("tiny", graph, schemas("tiny", &properties))?)
}

fn update(input: &JsonInput, name: &str) -> Value {
    let value = input.get("value").and_then(Value::as_str).unwrap_or_default();
    json!({ "value": format!("{value}{name}"), "log": [name], "count": 1 })
}
