//! The MCP and A2A endpoints.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use reqwest::Method;
use serde_json::{Value, json};
use test_support::peers;
use tokio::task::spawn_blocking;

use crate::{
    agent::add_agent,
    server::{Server, events},
};

async fn call(server: &Server, path: &str, method: &str, params: Value) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let (status, answer) = server.post(path, &body).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

#[tokio::test]
async fn mcp_lists_and_calls_graphs_as_tools() {
    let server = Server::start().await;
    let version = json!({ "protocolVersion": "2025-06-18" });
    let answer = call(&server, "/mcp", "initialize", version).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(server.post("/mcp", &notification).await.0, 202);

    let answer = call(&server, "/mcp", "tools/list", json!({})).await;
    let tools = answer["result"]["tools"].as_array().unwrap();
    let tiny = tools.iter().find(|it| it["name"] == "tiny").unwrap();
    assert_eq!(tiny["inputSchema"]["type"], "object");
    assert!(tiny["inputSchema"]["properties"]["value"].is_object());

    let params = json!({ "name": "tiny", "arguments": { "value": "x" } });
    let answer = call(&server, "/mcp", "tools/call", params).await;
    assert_eq!(answer["result"]["structuredContent"]["value"], "xab");
    assert_eq!(answer["result"]["isError"], false);

    let params = json!({ "name": "fail", "arguments": { "log": [] } });
    let answer = call(&server, "/mcp", "tools/call", params).await;
    assert_eq!(answer["result"]["isError"], true);
    assert_eq!(answer["result"]["content"][0]["text"], "ValueError: boom");

    let unknown = call(&server, "/mcp", "tools/call", json!({ "name": "nothing" })).await;
    assert_eq!(unknown["error"]["code"], -32602);
    let unknown = call(&server, "/mcp", "prompts/list", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601);
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(server.send(method, "/mcp", &json!({})).await.0, 405);
    }
}

#[tokio::test]
async fn mcp_rejects_unsupported_versions_of_the_protocol() {
    let server = Server::start().await;
    let status = async |method: &str, version: &'static str| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": {} });
        let request = server.json_request(Method::POST, "/mcp", &body);
        let request = request.header("mcp-protocol-version", version);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(status("tools/list", "2025-11-25").await, 200);
    assert_eq!(status("tools/list", "2025-03-26").await, 400);
    assert_eq!(status("tools/list", "2026-99-99").await, 400);
    // The body of this request contains the version that the client prefers.
    assert_eq!(status("initialize", "2026-99-99").await, 200);
    // Version 2025-03-26 requires batches, which the server rejects.
    for (wanted, version) in
        [("2025-03-26", "2024-11-05"), ("2026-99-99", "2025-11-25"), ("1", "2025-11-25")]
    {
        let params = json!({ "protocolVersion": wanted });
        let answer = call(&server, "/mcp", "initialize", params).await;
        assert_eq!(answer["result"]["protocolVersion"], version, "{wanted}");
    }
    assert_eq!(server.post("/mcp", &json!([])).await.0, 422);
}

/// Runs a Python script that calls the server at `url` with the packages in the directory `client`.
async fn run_script(name: &'static str, url: String, client: PathBuf) {
    let output = spawn_blocking(move || {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/python");
        let mut python = Command::new("python3");
        python.arg(scripts.join(name)).arg(url);
        python.env("PYTHONPATH", client).env("NO_PROXY", "127.0.0.1").output().unwrap()
    });
    let output = output.await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn the_official_mcp_client_calls_graphs() {
    // See `xtask/src/peers.rs`.
    let Some(client) = peers::find("mcp-2.3.0", "GRAPH_REQUIRE_MCP") else { return };
    let server = Server::start().await;
    run_script("mcp_client.py", format!("{}/mcp", server.url()), client).await;
}

#[tokio::test]
async fn the_official_a2a_client_sends_messages() {
    let Some(client) = peers::find("a2a-1.3.0", "GRAPH_REQUIRE_A2A") else { return };
    let server = Server::start().await;
    run_script("a2a_client.py", server.url(), client).await;
}

#[tokio::test]
async fn a2a_sends_messages_to_assistants() {
    let server = Server::start().await;
    let (status, card) = server.get("/.well-known/agent-card.json?assistant_id=chat").await;
    assert_eq!(status, 200, "{card}");
    let url = card["url"].as_str().unwrap();
    let path = &url[url.find("/a2a").unwrap()..];
    let part = json!({ "kind": "text", "text": "hi" });
    let message = json!({ "role": "user", "messageId": "m1", "parts": [part] });
    let answer = call(&server, path, "message/send", json!({ "message": message })).await;
    let task = &answer["result"];
    assert_eq!(task["status"]["state"], "completed", "{answer}");
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "you said hi");
    let stored = call(&server, path, "tasks/get", json!({ "id": task["id"] })).await;
    assert_eq!(stored["result"]["artifacts"], task["artifacts"]);
    assert_eq!(stored["result"]["status"]["state"], "completed");
    let ended = call(&server, path, "tasks/cancel", json!({ "id": task["id"] })).await;
    assert_eq!(ended["error"]["code"], -32002);

    let unknown = call(&server, path, "tasks/get", json!({ "id": "nothing" })).await;
    assert_eq!(unknown["error"]["code"], -32001);
    let upper = task["id"].as_str().unwrap().to_uppercase();
    let stored = call(&server, path, "tasks/get", json!({ "id": upper })).await;
    assert_eq!(stored["result"]["id"], task["id"]);
    let file = json!({ "role": "user", "parts": [{ "kind": "file", "file": {} }] });
    let rejected = call(&server, path, "message/send", json!({ "message": file })).await;
    assert_eq!(rejected["error"]["code"], -32602);
}

#[tokio::test]
async fn a2a_streams_the_growing_answer() {
    let server = Server::start().await;
    let message = json!({ "role": "user", "parts": [{ "kind": "text", "text": "hi there" }] });
    let body = json!({
        "jsonrpc": "2.0", "id": 7, "method": "message/stream", "params": { "message": message },
    });
    let text = server.post_text("/a2a/chat", &body).await;
    let events = events(&text);
    assert!(events.iter().all(|it| it["id"] == 7), "{text}");
    let results: Vec<_> = events.iter().map(|it| &it["result"]).collect();
    assert_eq!(results[0]["status"]["state"], "submitted");
    let working = results.iter().filter(|it| it["status"]["state"] == "working");
    let texts: Vec<_> = working.map(|it| &it["status"]["message"]["parts"][0]["text"]).collect();
    assert_eq!(texts, ["you ", "you said ", "you said hi ", "you said hi there"]);
    let [.., artifact, last] = results.as_slice() else { panic!("{text}") };
    assert_eq!(artifact["artifact"]["parts"][0]["text"], "you said hi there");
    assert_eq!((&last["status"]["state"], &last["final"]), (&json!("completed"), &json!(true)));
}

#[tokio::test]
async fn a2a_reports_that_an_interrupted_task_needs_input() {
    let server = Server::start().await;
    let message = json!({ "role": "user", "parts": [{ "kind": "text", "text": "hi" }] });
    let params = json!({ "message": message });
    let answer = call(&server, "/a2a/approval", "message/send", params).await;
    let task = &answer["result"];
    assert_eq!(task["status"]["state"], "input-required", "{answer}");
    let id = json!({ "id": task["id"] });
    let stored = call(&server, "/a2a/approval", "tasks/get", id.clone()).await;
    assert_eq!(stored["result"]["status"]["state"], "input-required", "{stored}");

    let resume = json!({ "assistant_id": "approval", "command": { "resume": "yes" } });
    let thread = task["contextId"].as_str().unwrap();
    server.post(&format!("/threads/{thread}/runs/wait"), &resume).await;
    let stored = call(&server, "/a2a/approval", "tasks/get", id).await;
    assert_eq!(stored["result"]["status"]["state"], "completed", "{stored}");
}

#[tokio::test]
async fn a2a_reports_that_a_task_was_cancelled() {
    let server = Server::start_with_graphs(add_agent).await;
    let thread = server.new_thread().await;
    // The agent answers this message until its run is cancelled.
    let part = json!({ "kind": "text", "text": "wait" });
    let message = json!({ "role": "user", "contextId": thread, "parts": [part] });
    let params = json!({ "message": message });
    let sent = call(&server, "/a2a/agent", "message/send", params.clone());
    let cancelled = async {
        let runs = format!("/threads/{thread}/runs");
        loop {
            let (_, runs) = server.get(&runs).await;
            if let Some(id) = runs[0]["run_id"].as_str() {
                break call(&server, "/a2a/agent", "tasks/cancel", json!({ "id": id })).await;
            }
            tokio::task::yield_now().await;
        }
    };
    let (sent, cancelled) = tokio::join!(sent, cancelled);
    for answer in [&sent, &cancelled] {
        assert_eq!(answer["result"]["status"]["state"], "canceled", "{answer}");
        assert_eq!(answer["result"]["artifacts"], json!([]), "{answer}");
    }

    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "message/stream", "params": params });
    let request = server.json_request(Method::POST, "/a2a/agent", &body);
    let mut response = request.send().await.unwrap();
    let mut text = String::new();
    while !text.contains("working") {
        text.push_str(&String::from_utf8_lossy(&response.chunk().await.unwrap().unwrap()));
    }
    let result = |line: Option<&str>| {
        let event: Value = serde_json::from_str(line.unwrap()).unwrap();
        event["result"].clone()
    };
    let task = result(text.lines().find_map(|it| it.strip_prefix("data: ")));
    call(&server, "/a2a/agent", "tasks/cancel", json!({ "id": task["id"] })).await;
    while let Some(chunk) = response.chunk().await.unwrap() {
        text.push_str(&String::from_utf8_lossy(&chunk));
    }
    let last = result(text.lines().rev().find_map(|it| it.strip_prefix("data: ")));
    assert_eq!((&last["status"]["state"], &last["final"]), (&json!("canceled"), &json!(true)));
}

#[tokio::test]
async fn the_agent_card_has_the_scheme_that_a_proxy_reports() {
    let server = Server::start().await;
    let url = async |proto: &str| {
        let path = "/.well-known/agent-card.json?assistant_id=chat";
        let request = server.request(Method::GET, path).header("x-forwarded-proto", proto);
        let text = request.send().await.unwrap().text().await.unwrap();
        let card: Value = serde_json::from_str(&text).unwrap();
        card["url"].as_str().unwrap().to_owned()
    };
    assert!(url("https").await.starts_with("https://127.0.0.1:"));
    assert!(url("http").await.starts_with("http://127.0.0.1:"));
    assert!(url("javascript").await.starts_with("http://127.0.0.1:"));
}
