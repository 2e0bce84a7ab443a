//! A fake chat model that repeats the last message.

use graph_agents::messages_field;
use graph_core::{Context, END, JsonStateSchema, START, json::JsonInput, json_node};
use graph_server::langgraph::Graphs;
use serde_json::{Value, json};

use super::support::{Result, schemas};

pub(super) fn add(graphs: Graphs) -> Result<Graphs> {
    let state = JsonStateSchema::new([("messages", messages_field())])?;
    let graph = state
        .graph()
        .node(json_node("model", |input, cx| async move { Ok(answer(&input, &cx).await) }))
        .edge(START, "model")
        .edge("model", END);
    let message = json!({
        "type": "object",
        "properties": {
            "type": { "enum": ["human", "ai", "system", "tool"] },
            "content": { "anyOf": [{ "type": "string" }, { "type": "array" }] },
            "id": { "type": "string" },
        },
        "required": ["type", "content"],
    });
    let properties = json!({ "messages": { "type": "array", "items": message } });
    Ok(graphs.add("chat", graph, schemas("chat", &properties))?)
}

/// Answers the last message, word by word.
async fn answer(input: &JsonInput, cx: &Context) -> Value {
    let last = input.get("messages").and_then(Value::as_array).and_then(|it| it.last());
    let text = format!("you said {}", last.map(text_of).unwrap_or_default());
    let id = format!("run-{}", cx.task_id());
    for piece in text.split_inclusive(' ') {
        cx.message(json!({ "type": "AIMessageChunk", "content": piece, "id": id })).await;
    }
    json!({ "messages": [{ "type": "ai", "content": text, "id": id }] })
}

/// Returns the text of a message.
fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::Array(blocks) => blocks.iter().filter_map(|it| it["text"].as_str()).collect(),
        content => content.as_str().unwrap_or_default().to_owned(),
    }
}
