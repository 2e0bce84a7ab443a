//! A node that uses the context of its run, its configuration and the long-term store.

use graph_core::{
    Context, END, JsonFieldKind, JsonStateSchema, NodeError, START, json::JsonInput, json_node,
};
use graph_server::langgraph::Graphs;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::support::{Result, schemas};

/// The context of a run.
#[derive(Deserialize)]
struct Greeting {
    greeting: Option<String>,
}

pub(super) fn add(graphs: Graphs) -> Result<Graphs> {
    let state = JsonStateSchema::new([
        ("name", JsonFieldKind::Last),
        ("out", JsonFieldKind::Last),
        ("user", JsonFieldKind::Last),
    ])?;
    let graph = state
        .graph_with::<Greeting>()
        .node(json_node(
            "greet",
            |input, cx: Context<Greeting>| async move { greet(&input, &cx).await },
        ))
        .edge(START, "greet")
        .edge("greet", END);
    let text = json!({ "type": "string" });
    let schemas = schemas("ctx", &json!({ "name": text, "out": text, "user": text }));
    let context = json!({
        "title": "greeting",
        "type": "object",
        "properties": { "greeting": { "type": "string" } },
    });
    let context_of = |context: &Map<String, Value>| {
        Greeting::deserialize(Value::Object(context.clone()))
            .map_err(|error| format!("invalid context: {error}"))
    };
    Ok(graphs.add_with_context("ctx", graph, schemas.with_context(context), context_of)?)
}

async fn greet(input: &JsonInput, cx: &Context<Greeting>) -> std::result::Result<Value, NodeError> {
    let name = input.get("name").and_then(Value::as_str).unwrap_or_default();
    let greeting = cx.deps().greeting.as_deref().filter(|it| !it.is_empty()).unwrap_or("hello");
    if let Some(store) = cx.store() {
        store.put(&["greeted"], name, json!({ "greeting": greeting })).await?;
    }
    let user = cx.config("user").cloned().unwrap_or_else(|| json!("-"));
    Ok(json!({ "out": format!("{greeting} {name}"), "user": user }))
}
