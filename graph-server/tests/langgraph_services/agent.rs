//! A graph with a scripted model that thinks, calls a tool in pieces, and answers.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use graph_agents::messages_field;
use graph_core::{Context, END, JsonStateSchema, NodeError, START, json::JsonInput, json_node};
use graph_server::langgraph::{Graphs, Schemas};
use serde_json::{Value, json};

/// Adds the graph `agent`. The last message of the user selects its behaviour: `wait` streams until the run is
/// cancelled, `mail` calls a tool that a person must approve, and any other text calls a tool at once.
pub(crate) fn add_agent(graphs: Graphs) -> Graphs {
    let state = JsonStateSchema::new([("messages", messages_field())]).unwrap();
    let graph = state
        .graph()
        .node(json_node("model", |input, cx| async move { Ok(model(&input, &cx).await) }))
        .node(json_node("tools", |input, cx| async move {
            cx.emit(json!({ "progress": 1 })).await;
            tool(&input, &cx)
        }))
        .node(json_node("answer", |input, _| async move {
            let result = last(&input, "tool").map(text_of).unwrap_or_default();
            let answer = json!({
                "type": "ai", "content": format!("It is {result}."), "id": next_id("answer"),
            });
            Ok(json!({ "messages": [answer] }))
        }))
        .edge(START, "model")
        .edge("model", "tools")
        .edge("tools", "answer")
        .edge("answer", END);
    graphs.add("agent", graph, Schemas::default()).unwrap()
}

async fn model(input: &JsonInput, cx: &Context) -> Value {
    let id = next_id("ask");
    let piece = |more: Value| {
        let mut piece = json!({ "type": "AIMessageChunk", "content": "", "id": id });
        piece.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        piece
    };
    let question = last(input, "human").map(text_of).unwrap_or_default();
    if question == "wait" {
        loop {
            cx.message(piece(json!({ "content": "tick " }))).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let (name, key, value) = match question.as_str() {
        "mail" => ("send_mail", "to", json!("ann")),
        _ => ("add", "a", json!(1)),
    };
    let call = next_id("call");
    let call_piece = |id: Value, name: Value, args: String| json!({ "tool_call_chunks": [{ "index": 0, "id": id, "name": name, "args": args }] });
    let thought = json!([{ "type": "reasoning", "reasoning": "hm" }]);
    cx.message(piece(json!({ "content": thought }))).await;
    cx.message(piece(call_piece(json!(call), json!(name), String::new()))).await;
    cx.message(piece(call_piece(Value::Null, Value::Null, format!("{{\"{key}\":")))).await;
    cx.message(piece(call_piece(Value::Null, Value::Null, format!("{value}}}")))).await;
    let calls = json!([{ "id": call, "name": name, "args": { key: value } }]);
    json!({ "messages": [{ "type": "ai", "content": "", "id": id, "tool_calls": calls }] })
}

/// Answers the call of the last message. A person approves or rejects emails, in the format of LangChain's
/// human-in-the-loop middleware.
fn tool(input: &JsonInput, cx: &Context) -> Result<Value, NodeError> {
    let message = last(input, "ai").cloned().unwrap_or_default();
    let call = &message["tool_calls"][0];
    let content = if call["name"] == "send_mail" {
        let request = json!({ "name": "send_mail", "args": call["args"] });
        let config = json!({
            "action_name": "send_mail", "allowed_decisions": ["approve", "edit", "reject"],
        });
        let answer: Value =
            cx.interrupt(json!({ "action_requests": [request], "review_configs": [config] }))?;
        let decision = &answer["decisions"][0];
        match decision["type"].as_str() {
            Some("approve") => "sent to ann".to_owned(),
            Some("edit") => {
                let to = &decision["edited_action"]["args"]["to"];
                format!("sent to {}", to.as_str().unwrap_or_default())
            }
            _ => "not sent".to_owned(),
        }
    } else {
        "2".to_owned()
    };
    let result = json!({
        "type": "tool", "content": content, "tool_call_id": call["id"], "name": call["name"],
        "id": next_id("result"),
    });
    Ok(json!({ "messages": [result] }))
}

/// Returns an id that no other message or call has, like the ids of real models.
fn next_id(kind: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{kind}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the last message of this type.
fn last<'a>(input: &'a JsonInput, kind: &str) -> Option<&'a Value> {
    input.get("messages")?.as_array()?.iter().rfind(|it| it["type"] == kind)
}

fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::Array(blocks) => blocks.iter().filter_map(|it| it["text"].as_str()).collect(),
        content => content.as_str().unwrap_or_default().to_owned(),
    }
}
