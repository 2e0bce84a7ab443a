//! One task for each item of a list.

use graph_core::{
    END, Goto, JsonFieldKind, JsonStateSchema, START,
    json::{JsonBranch, JsonInput},
    json_node,
};
use graph_server::langgraph::Graphs;
use serde_json::{Value, json};

use super::support::{Result, schemas};

pub(super) fn add(graphs: Graphs) -> Result<Graphs> {
    let state = JsonStateSchema::new([
        ("items", JsonFieldKind::Last),
        ("results", JsonFieldKind::Append),
        ("total", JsonFieldKind::Last),
    ])?;
    let send_items = JsonBranch::new("send_items", |input| {
        let items = input.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        Ok(items.into_iter().map(|it| Goto::send("worker", json!({ "item": it }))).collect())
    });
    let graph = state
        .graph()
        .node(json_node("plan", |_, _| async move { Ok(json!({})) }))
        .node(json_node("worker", |input, _| async move {
            let item = input.get("item").and_then(Value::as_i64).unwrap_or_default();
            Ok(json!({ "results": [item * item] }))
        }))
        .node(json_node("join", |input, _| async move { Ok(json!({ "total": sum(&input) })) }))
        .edge(START, "plan")
        .json_branch("plan", send_items.destinations(["worker"]))
        .edge("worker", "join")
        .edge("join", END);
    let integers = json!({ "type": "array", "items": { "type": "integer" } });
    let properties =
        json!({ "items": integers, "results": integers, "total": { "type": "integer" } });
    Ok(graphs.add("fanout", graph, schemas("fanout", &properties))?)
}

fn sum(input: &JsonInput) -> i64 {
    let results = input.get("results").and_then(Value::as_array);
    results.into_iter().flatten().filter_map(Value::as_i64).sum()
}
