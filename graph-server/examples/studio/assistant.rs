//! A chat with a scripted model that calls a tool and remembers questions in the store.

use std::time::Duration;

use graph_agents::messages_field;
use graph_core::{
    Context, Goto, JsonStateSchema, NodeError, START,
    json::{JsonBranch, JsonInput},
    json_node,
};
use graph_server::langgraph::{Graphs, Schemas};
use serde_json::{Value, json};

use super::object;

pub(super) fn add(graphs: Graphs) -> Result<Graphs, Box<dyn std::error::Error>> {
    let state = JsonStateSchema::new([("messages", messages_field())])?;
    let route = JsonBranch::new("route", |input| {
        let calls = last(input).and_then(|it| it["tool_calls"].as_array());
        Ok(vec![if calls.is_some_and(|it| !it.is_empty()) {
            Goto::node("tools")
        } else {
            Goto::end()
        }])
    });
    let graph = state
        .graph()
        .node(json_node("model", |input, cx| async move { model(&input, &cx).await }))
        .node(json_node("tools", |input, _| async move { Ok(tools(&input)) }))
        .edge(START, "model")
        .json_branch("model", route.destinations(["tools", "__end__"]))
        .edge("tools", "model");
    let messages = json!({ "messages": { "type": "array", "items": { "type": "object" } } });
    Ok(graphs.add("assistant", graph, Schemas::of_state(object("assistant", &messages)))?)
}

/// Calls the tool for questions about the weather, and otherwise answers word by word.
async fn model(input: &JsonInput, cx: &Context) -> Result<Value, NodeError> {
    let message = last(input).cloned().unwrap_or_default();
    let text = message["content"].as_str().unwrap_or_default();
    let is_question = message["type"] == "human";
    let id = format!("message-{}", cx.task_id());
    if let (Some(store), true) = (cx.store(), is_question) {
        store.put(&["questions"], &id, json!({ "text": text })).await?;
    }
    let usage = json!({ "input": 40 + text.len(), "output": 12, "cached": 0, "cache_written": 0, "reasoning": 0 });
    if is_question && text.contains("weather") {
        let call =
            json!({ "id": format!("call-{id}"), "name": "weather", "args": { "city": "Rome" } });
        let message = json!({
            "type": "ai", "content": "", "id": id, "tool_calls": [call], "usage": usage,
        });
        return Ok(json!({ "messages": [message] }));
    }
    let answer = match is_question {
        true => format!("You wrote: **{text}**. Ask me about the `weather` to see a tool call."),
        false => format!("The tool says: {text}"),
    };
    for piece in answer.split_inclusive(' ') {
        cx.message(json!({ "type": "AIMessageChunk", "content": piece, "id": id })).await;
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    let message = json!({ "type": "ai", "content": answer, "id": id, "usage": usage });
    Ok(json!({ "messages": [message] }))
}

/// Answers the calls of the last message.
fn tools(input: &JsonInput) -> Value {
    let calls = last(input).and_then(|it| it["tool_calls"].as_array()).into_iter().flatten();
    let results = calls.map(|call| {
        json!({
            "type": "tool",
            "name": call["name"],
            "tool_call_id": call["id"],
            "content": format!("it rains in {}.", call["args"]["city"].as_str().unwrap_or_default()),
        })
    });
    json!({ "messages": results.collect::<Vec<_>>() })
}

fn last(input: &JsonInput) -> Option<&Value> {
    input.get("messages").and_then(Value::as_array).and_then(|it| it.last())
}
