//! Streams for user interfaces, read by their official JavaScript clients.

use std::{path::Path, process::Command};

use graph_agents::messages_field;
use graph_core::{END, JsonStateSchema, START, json_node};
use graph_server::langgraph::{Graphs, Schemas};
use reqwest::Method;
use serde_json::{Value, json};
use test_support::peers;
use tokio::task::spawn_blocking;

use crate::{agent::add_agent, server::Server};

/// Name of the directory into which xtask installs the clients; see `xtask/src/peers.rs`.
const DIR_NAME: &str = "ui-clients-1.0.0-6.0.326-0.0.43-0.14.25";

/// Name of the directory of CopilotKit's runtime and the AI SDK's adapter for LangGraph.
const RUNTIMES_DIR_NAME: &str = "ui-runtimes-1.75.0-2.0.296";

async fn run(suite: &'static str) {
    run_with(suite, DIR_NAME, "GRAPH_REQUIRE_UI_CLIENTS").await;
}

async fn run_with_runtimes(suite: &'static str) {
    run_with(suite, RUNTIMES_DIR_NAME, "GRAPH_REQUIRE_UI_RUNTIMES").await;
}

/// Runs a suite with the packages in a directory. Skips it if they are not installed, unless `require` is set.
async fn run_with(suite: &'static str, dir_name: &str, require: &str) {
    let Some(clients) = peers::find(dir_name, require) else { return };
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
async fn the_agent_of_copilotkit_runs_graphs() {
    run("copilotkit.test.mjs").await;
}

#[tokio::test]
async fn the_runtime_of_copilotkit_runs_graphs() {
    run_with_runtimes("copilotkit_runtime.test.mjs").await;
}

#[tokio::test]
async fn the_adapter_of_the_ai_sdk_runs_graphs() {
    run_with_runtimes("ai_sdk_langchain.test.mjs").await;
}

#[tokio::test]
async fn the_runtime_of_assistant_ui_runs_graphs() {
    run("assistant_ui.test.mjs").await;
}

#[tokio::test]
async fn the_flows_of_agent_chat_ui_work() {
    run("agent_chat_ui.test.mjs").await;
}

#[tokio::test]
async fn unsupported_requests_of_user_interfaces_are_rejected() {
    let server = Server::start().await;
    let ag_ui = |more: (&str, Value)| {
        let mut body = json!({
            "threadId": "t", "runId": "r", "messages": [], "tools": [], "context": [], "state": {},
        });
        body[more.0] = more.1;
        body
    };
    let rejected = [
        ag_ui(("surprise", json!(1))),
        ag_ui(("protocolVersion", json!("2.0"))),
        ag_ui(("parentRunId", json!("r0"))),
        ag_ui(("state", json!("x"))),
        ag_ui(("messages", json!([{ "id": "1", "role": "surprise", "content": "x" }]))),
    ];
    for body in rejected {
        let (status, answer) = server.post("/ag-ui/chat", &body).await;
        assert_eq!(status, 422, "{body}: {answer}");
    }
    let message = |part: Value| json!([{ "id": "1", "role": "user", "parts": [part] }]);
    let rejected = [
        json!({ "id": "c", "messages": message(json!({ "type": "file", "mediaType": "audio/wav" })) }),
        json!({ "id": "c", "messages": [{ "id": "1", "role": "surprise" }] }),
        json!({ "id": "c", "messages": [], "trigger": "surprise" }),
        json!({ "id": "c", "messages": [], "surprise": 1 }),
    ];
    for body in rejected {
        let (status, answer) = server.post("/ai-sdk/chat", &body).await;
        assert_eq!(status, 422, "{body}: {answer}");
    }
    assert_eq!(server.get("/ai-sdk/chat/c/stream").await.0, 204);
}

/// Sends a request and returns the data of the events in the response.
async fn stream(server: &Server, path: &str, body: &Value) -> Vec<Value> {
    let response = server.json_request(Method::POST, path, body).send().await.unwrap();
    assert_eq!(response.status(), 200, "{body}");
    let text = response.text().await.unwrap();
    let events = text.lines().filter_map(|it| it.strip_prefix("data: "));
    events.filter(|it| *it != "[DONE]").map(|it| serde_json::from_str(it).unwrap()).collect()
}

fn ag_ui_request(thread: &str, messages: &[Value]) -> Value {
    json!({
        "threadId": thread, "runId": "r", "messages": messages, "tools": [], "context": [], "state": {},
    })
}

fn ai_sdk_message(id: &str, role: &str, text: &str) -> Value {
    json!({ "id": id, "role": role, "parts": [{ "type": "text", "text": text }] })
}

/// Adds a graph that redacts the question and adds messages of the system, the assistant and the user.
fn add_authors(graphs: Graphs) -> Graphs {
    let state = JsonStateSchema::new([("messages", messages_field())]).unwrap();
    let node = json_node("authors", |input, cx| async move {
        let id = |kind: &str| format!("{kind}-{}", cx.task_id());
        let question = input.get("messages").and_then(|it| it.as_array()?.last().cloned());
        Ok(json!({ "messages": [
            { "type": "human", "content": "redacted", "id": question.unwrap_or_default()["id"] },
            { "type": "system", "content": "a rule", "id": id("system") },
            { "type": "ai", "content": "an answer", "id": id("ai") },
            { "type": "human", "content": "a follow-up", "id": id("human") },
        ] }))
    });
    let graph = state.graph().node(node).edge(START, "authors").edge("authors", END);
    graphs.add("authors", graph, Schemas::default()).unwrap()
}

#[tokio::test]
async fn only_messages_of_the_assistant_are_streamed() {
    let server = Server::start_with_graphs(add_authors).await;
    let of_type = |events: &[Value], kind: &str| -> Vec<Value> {
        let events = events.iter().filter(|it| it["type"] == kind);
        events.map(|it| it["delta"].clone()).collect()
    };
    let question = json!({ "id": "1", "role": "user", "content": "x" });
    let events = stream(&server, "/ag-ui/authors", &ag_ui_request("t", &[question])).await;
    assert_eq!(of_type(&events, "TEXT_MESSAGE_CONTENT"), ["an answer"], "{events:?}");
    assert_eq!(of_type(&events, "TEXT_MESSAGE_END").len(), 1, "{events:?}");
    let body = json!({ "id": "c", "messages": [ai_sdk_message("1", "user", "x")] });
    let events = stream(&server, "/ai-sdk/authors", &body).await;
    assert_eq!(of_type(&events, "text-delta"), ["an answer"], "{events:?}");
    assert_eq!(of_type(&events, "text-end").len(), 1, "{events:?}");
}

#[tokio::test]
async fn edited_messages_are_rejected() {
    let server = Server::start().await;
    let rejects = async |path: &str, body: Value| {
        let (status, answer) = server.post(path, &body).await;
        assert_eq!(status, 400, "{body}: {answer}");
        let detail = answer["detail"].as_str().unwrap();
        assert!(detail.contains("editing an earlier message is not supported"), "{detail}");
    };
    let user = |id: &str, text: &str| ai_sdk_message(id, "user", text);
    let body = |messages: Value| json!({ "id": "c", "messages": messages });
    stream(&server, "/ai-sdk/chat", &body(json!([user("1", "first")]))).await;
    let edited = json!({ "id": "c", "messages": [user("1", "edited")], "messageId": "1" });
    rejects("/ai-sdk/chat", edited).await;
    let both = json!([user("1", "edited"), user("2", "second")]);
    rejects("/ai-sdk/chat", body(both)).await;
    let regenerated = json!({
        "id": "c", "messages": [user("1", "edited")], "trigger": "regenerate-message",
    });
    rejects("/ai-sdk/chat", regenerated).await;
    stream(&server, "/ai-sdk/chat", &body(json!([user("1", "first"), user("2", "second")]))).await;

    let image = json!({ "type": "image", "source": { "type": "url", "value": "https://x.org/a" } });
    let user = |id: &str, content: Value| json!({ "id": id, "role": "user", "content": content });
    let first = user("1", json!([{ "type": "text", "text": "first" }, image]));
    stream(&server, "/ag-ui/chat", &ag_ui_request("t", &[first])).await;
    let edited = user("1", json!("edited"));
    rejects("/ag-ui/chat", ag_ui_request("t", &[edited])).await;
    // The snapshot that clients send back contains only the text.
    let messages = [user("1", json!("first")), user("2", json!("second"))];
    stream(&server, "/ag-ui/chat", &ag_ui_request("t", &messages)).await;
}

#[tokio::test]
async fn messages_that_the_graph_changes_are_not_edited_by_the_user() {
    let server = Server::start_with_graphs(add_authors).await;
    let user = |id: &str, text: &str| ai_sdk_message(id, "user", text);
    let send = async |messages: Value, trigger: &str| {
        let body = json!({ "id": "c", "messages": messages, "trigger": trigger });
        stream(&server, "/ai-sdk/authors", &body).await
    };
    send(json!([user("1", "secret")]), "submit-message").await;
    send(json!([user("1", "secret"), user("2", "again")]), "submit-message").await;
    send(json!([user("1", "secret"), user("2", "again")]), "regenerate-message").await;
}

#[tokio::test]
async fn only_the_last_answer_can_be_regenerated() {
    let server = Server::start().await;
    let user = |id: &str, text: &str| ai_sdk_message(id, "user", text);
    let send = async |messages: Value| {
        let events =
            stream(&server, "/ai-sdk/chat", &json!({ "id": "c", "messages": messages })).await;
        events[0]["messageId"].as_str().unwrap().to_owned()
    };
    let first = send(json!([user("1", "first")])).await;
    let second = send(json!([user("1", "first"), user("2", "second")])).await;
    let regenerate = |messages: Value, id: Option<&str>| json!({ "id": "c", "messages": messages, "trigger": "regenerate-message", "messageId": id });
    let earlier = json!([user("1", "first")]);
    for id in [None, Some("1"), Some(first.as_str()), Some("surprise")] {
        let (status, answer) = server.post("/ai-sdk/chat", &regenerate(earlier.clone(), id)).await;
        assert_eq!(status, 400, "{id:?}: {answer}");
        let detail = answer["detail"].as_str().unwrap();
        assert!(detail.contains("only the last answer"), "{detail}");
    }
    let all = json!([user("1", "first"), user("2", "second")]);
    let mut last = second;
    for is_answer in [true, false] {
        let id = if is_answer { last.clone() } else { "2".to_owned() };
        let events = stream(&server, "/ai-sdk/chat", &regenerate(all.clone(), Some(&id))).await;
        let text = events.iter().filter(|it| it["type"] == "text-delta");
        let text: String = text.filter_map(|it| it["delta"].as_str()).collect();
        assert_eq!(text, "you said second");
        last = events[0]["messageId"].as_str().unwrap().to_owned();
    }
    stream(&server, "/ai-sdk/chat", &regenerate(all, None)).await;
}

#[tokio::test]
async fn streams_to_which_the_ai_sdk_reconnects_are_stored() {
    let server = Server::start().await;
    for (on_disconnect, is_stored) in [("cancel", false), ("continue", true)] {
        let messages = [ai_sdk_message("1", "user", "x")];
        let body =
            json!({ "id": on_disconnect, "messages": messages, "on_disconnect": on_disconnect });
        stream(&server, "/ai-sdk/chat", &body).await;
        let (_, threads) = server.post("/threads/search", &json!({ "limit": 1 })).await;
        let thread = threads[0]["thread_id"].as_str().unwrap();
        let (_, runs) = server.get(&format!("/threads/{thread}/runs")).await;
        assert_eq!(runs[0]["kwargs"]["resumable"], is_stored, "{on_disconnect}");
    }
}
