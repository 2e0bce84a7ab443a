//! Streams for user interfaces, read by their official JavaScript clients.

use std::{path::Path, process::Command};

use graph_agents::messages_field;
use graph_core::{END, JsonStateSchema, START, json_node};
use graph_server::langgraph::{Graphs, Schemas};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::{peers, server::Server};

/// Name of the directory into which xtask installs the clients; see `xtask/src/peers.rs`.
const DIR_NAME: &str = "ui-clients-1.0.0-6.0.326";

/// Adds a graph with a model that thinks, calls a tool in pieces, and answers.
fn add_agent(graphs: Graphs) -> Graphs {
    let state = JsonStateSchema::new([("messages", messages_field())]).unwrap();
    let piece = |id: &str, more: Value| {
        let mut piece = json!({ "type": "AIMessageChunk", "content": "", "id": id });
        piece.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        piece
    };
    let call = |args: &str, first: bool| {
        let id = if first { json!("call-1") } else { Value::Null };
        let name = if first { json!("add") } else { Value::Null };
        json!({ "tool_call_chunks": [{ "index": 0, "id": id, "name": name, "args": args }] })
    };
    let graph = state
        .graph()
        .node(json_node("model", move |_, cx| async move {
            let id = format!("ask-{}", cx.task_id());
            let thought = json!([{ "type": "reasoning", "reasoning": "hm" }]);
            cx.message(piece(&id, json!({ "content": thought }))).await;
            cx.message(piece(&id, call("{\"a\":", true))).await;
            cx.message(piece(&id, call("1}", false))).await;
            let calls = json!([{ "id": "call-1", "name": "add", "args": { "a": 1 } }]);
            Ok(json!({ "messages": [{ "type": "ai", "content": "", "id": id, "tool_calls": calls }] }))
        }))
        .node(json_node("tools", |_, cx| async move {
            cx.emit(json!({ "progress": 1 })).await;
            let result = json!({
                "type": "tool", "content": "2", "tool_call_id": "call-1", "name": "add", "id": "result",
            });
            Ok(json!({ "messages": [result] }))
        }))
        .node(json_node("answer", |_, cx| async move {
            let id = format!("answer-{}", cx.task_id());
            Ok(json!({ "messages": [{ "type": "ai", "content": "It is 2.", "id": id }] }))
        }))
        .edge(START, "model")
        .edge("model", "tools")
        .edge("tools", "answer")
        .edge("answer", END);
    graphs.add("agent", graph, Schemas::default()).unwrap()
}

async fn run(suite: &'static str) {
    let Some(clients) = peers::find(DIR_NAME, "GRAPH_REQUIRE_UI_CLIENTS") else { return };
    let server = Server::start_with_graphs(add_agent).await;
    let url = server.url();
    let output = spawn_blocking(move || {
        let suites = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/javascript");
        let mut node = Command::new("node");
        node.args(["--test", suite]).current_dir(suites).env("NO_PROXY", "127.0.0.1");
        node.env("GRAPH_SERVER_URL", url).env("GRAPH_CLIENTS_NODE", clients).output().unwrap()
    });
    let output = output.await.unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn the_client_of_ag_ui_accepts_every_stream() {
    run("ag_ui.test.mjs").await;
}

#[tokio::test]
async fn the_ai_sdk_accepts_every_stream() {
    run("ai_sdk.test.mjs").await;
}

#[tokio::test]
async fn unsupported_requests_of_user_interfaces_are_refused() {
    let server = Server::start().await;
    let ag_ui = |more: (&str, Value)| {
        let mut body = json!({
            "threadId": "t", "runId": "r", "messages": [], "tools": [], "context": [], "state": {},
        });
        body[more.0] = more.1;
        body
    };
    let refused = [
        ag_ui(("surprise", json!(1))),
        ag_ui(("protocolVersion", json!("2.0"))),
        ag_ui(("parentRunId", json!("r0"))),
        ag_ui(("state", json!("x"))),
        ag_ui(("messages", json!([{ "id": "1", "role": "surprise", "content": "x" }]))),
    ];
    for body in refused {
        let (status, answer) = server.post("/ag-ui/chat", &body).await;
        assert_eq!(status, 422, "{body}: {answer}");
    }
    let message = |part: Value| json!([{ "id": "1", "role": "user", "parts": [part] }]);
    let refused = [
        json!({ "id": "c", "messages": message(json!({ "type": "file", "mediaType": "audio/wav" })) }),
        json!({ "id": "c", "messages": [{ "id": "1", "role": "surprise" }] }),
        json!({ "id": "c", "messages": [], "trigger": "surprise" }),
        json!({ "id": "c", "messages": [], "surprise": 1 }),
    ];
    for body in refused {
        let (status, answer) = server.post("/ai-sdk/chat", &body).await;
        assert_eq!(status, 422, "{body}: {answer}");
    }
    assert_eq!(server.get("/ai-sdk/chat/c/stream").await.0, 204);
}
