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

use super::schema::object;

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
        .node(json_node("tools", |input, cx| async move { tools(&input, &cx) }))
        .edge(START, "model")
        .json_branch("model", route.destinations(["tools", "__end__"]))
        .edge("tools", "model");
    let messages = json!({ "messages": { "type": "array", "items": { "type": "object" } } });
    Ok(graphs.add("assistant", graph, Schemas::of_state(object("assistant", &messages)))?)
}

/// Calls a tool for questions about the weather and for requests to send an email. Answers all other questions word by
/// word.
async fn model(input: &JsonInput, cx: &Context) -> Result<Value, NodeError> {
    let message = last(input).cloned().unwrap_or_default();
    let text = message["content"].as_str().unwrap_or_default();
    let is_question = message["type"] == "human";
    let id = format!("message-{}", cx.task_id());
    if let (Some(store), true) = (cx.store(), is_question) {
        store.put(&["questions"], &id, json!({ "text": text })).await?;
    }
    let usage = json!({ "input": 40 + text.len(), "output": 12, "cached": 0, "cache_written": 0, "reasoning": 0 });
    if let (Some((name, args)), true) = (tool_for(text), is_question) {
        let call = json!({ "id": format!("call-{id}"), "name": name, "args": args });
        let message = json!({
            "type": "ai", "content": "", "id": id, "tool_calls": [call], "usage": usage,
        });
        return Ok(json!({ "messages": [message] }));
    }
    let answer = match is_question {
        true => format!("You wrote: **{text}**. Ask me about the `weather`, or to send a `mail`."),
        false => format!("The tool says: {text}"),
    };
    for piece in answer.split_inclusive(' ') {
        cx.message(json!({ "type": "AIMessageChunk", "content": piece, "id": id })).await;
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    let message = json!({ "type": "ai", "content": answer, "id": id, "usage": usage });
    Ok(json!({ "messages": [message] }))
}

/// Returns the tool that a question needs, with its arguments.
fn tool_for(question: &str) -> Option<(&'static str, Value)> {
    if question.contains("weather") {
        return Some(("weather", json!({ "city": "Rome" })));
    }
    question.contains("mail").then(|| ("send_mail", json!({ "to": "ann@example.org" })))
}

/// Answers the calls of the last message. A person decides whether an email is sent.
fn tools(input: &JsonInput, cx: &Context) -> Result<Value, NodeError> {
    let calls = last(input).and_then(|it| it["tool_calls"].as_array()).into_iter().flatten();
    let mut results = Vec::new();
    for call in calls {
        let content = match call["name"].as_str() {
            Some("send_mail") => send_mail(call, cx)?,
            _ => format!("it rains in {}.", call["args"]["city"].as_str().unwrap_or_default()),
        };
        let id = format!("result-{}", call["id"].as_str().unwrap_or_default());
        results.push(json!({
            "type": "tool", "name": call["name"], "tool_call_id": call["id"], "content": content,
            "id": id,
        }));
    }
    Ok(json!({ "messages": results }))
}

/// Asks for a decision in the format of LangChain's human-in-the-loop middleware.
fn send_mail(call: &Value, cx: &Context) -> Result<String, NodeError> {
    let request = json!({ "name": call["name"], "args": call["args"] });
    let allowed = json!({ "allowed_decisions": ["approve", "reject"] });
    let answer: Value =
        cx.interrupt(json!({ "action_requests": [request], "review_configs": [allowed] }))?;
    Ok(match answer["decisions"][0]["type"].as_str() {
        Some("approve") => "the mail was sent.".to_owned(),
        _ => "the mail was not sent.".to_owned(),
    })
}

fn last(input: &JsonInput) -> Option<&Value> {
    input.get("messages").and_then(Value::as_array).and_then(|it| it.last())
}
