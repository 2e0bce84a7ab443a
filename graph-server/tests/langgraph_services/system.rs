//! Metrics, documentation, and the stream of a thread's edits.

use reqwest::Method;
use serde_json::json;

use crate::server::Server;

#[tokio::test]
async fn metrics_count_runs_and_requests() {
    let server = Server::start().await;
    let body = json!({ "assistant_id": "tiny", "input": { "value": "x" } });
    let thread = server.new_thread().await;
    server.post(&format!("/threads/{thread}/runs/wait"), &body).await;
    let response = server.request(Method::GET, "/metrics").send().await.unwrap();
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    let text = response.text().await.unwrap();
    assert!(kind.starts_with("text/plain"), "{kind}");
    assert!(text.contains("runs{status=\"success\"} 1\n"), "{text}");
    let request = "http_requests_total{method=\"POST\",route=\"/threads/{thread}/runs/wait\",status=\"200\"} 1";
    assert!(text.contains(request), "{text}");
}

#[tokio::test]
async fn unknown_query_parameters_are_rejected() {
    let server = Server::start().await;
    let accepted = ["/ok", "/ok?check_db=1", "/metrics?format=prometheus"];
    for path in accepted {
        assert_eq!(server.get(path).await.0, 200, "{path}");
    }
    for path in ["/ok?surprise=1", "/metrics?format=json", "/metrics?surprise=1"] {
        assert_eq!(server.get(path).await.0, 422, "{path}");
    }
    // These operations have no query parameters.
    assert_eq!(server.get("/assistants/tiny?surprise=1").await.0, 422);
    assert_eq!(server.post("/threads?surprise=1", &json!({})).await.0, 422);
}

#[tokio::test]
async fn every_documented_path_is_served() {
    let server = Server::start().await;
    let (_, document) = server.get("/openapi.json").await;
    let paths = document["paths"].as_object().unwrap();
    for (path, operations) in paths {
        let path = path.replace("{namespace}", "x");
        let path = path.split('{').map(|it| match it.split_once('}') {
            Some((_, rest)) => format!("00000000-0000-4000-8000-000000000000{rest}"),
            None => it.to_owned(),
        });
        let path: String = path.collect();
        for method in operations.as_object().unwrap().keys() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let (status, body) = server.send(method.clone(), &path, &json!({ "unknown": 1 })).await;
            let missing = body["error"]["code"] == "not_found" || status == 405;
            assert!(!missing, "{method} {path}: {status} {body}");
        }
    }
}

#[tokio::test]
async fn the_documentation_page_loads_nothing_from_other_servers() {
    let server = Server::start().await;
    for path in ["/docs", "/docs/docs.js"] {
        let response = server.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let text = response.text().await.unwrap();
        assert!(!text.contains("http://") && !text.contains("https://"), "{path}");
    }
}

#[tokio::test]
async fn unknown_urls_are_answered_with_a_detail() {
    let server = Server::start().await;
    let (status, body) = server.get("/nothing/here").await;
    assert_eq!((status, body["detail"].is_string()), (404, true), "{body}");
}

#[tokio::test]
async fn edits_are_part_of_the_stream_of_a_thread() {
    let server = Server::start().await;
    let thread = server.new_thread().await;
    let run = json!({ "assistant_id": "tiny", "input": { "value": "x" } });
    server.post(&format!("/threads/{thread}/runs/wait"), &run).await;
    let path = format!("/threads/{thread}/stream?stream_modes=state_update");
    let mut stream = server.request(Method::GET, &path).send().await.unwrap();
    // The stream is open before the edit, so it contains the edit.
    let edit = json!({ "values": { "value": "edited" } });
    assert_eq!(server.post(&format!("/threads/{thread}/state"), &edit).await.0, 200);
    let mut text = String::new();
    while !text.contains("\r\n\r\n") {
        let chunk = stream.chunk().await.unwrap().unwrap();
        text.push_str(&String::from_utf8_lossy(&chunk));
        // An idle stream contains heartbeats.
        text = text.replace(": heartbeat\r\n\r\n", "");
    }
    assert!(text.starts_with("event: state_update\r\n"), "{text}");
    assert!(text.contains("\"value\":\"edited\""), "{text}");
}

#[tokio::test]
async fn messages_have_all_fields_that_clients_read() {
    let server = Server::start().await;
    let call = json!({ "id": "c1", "name": "add", "args": {} });
    let messages = json!([
        { "role": "user", "content": "hi" },
        { "type": "ai", "content": "", "tool_calls": [call] },
        { "type": "tool", "content": "2", "tool_call_id": "c1" },
    ]);
    let run = json!({ "assistant_id": "chat", "input": { "messages": messages } });
    let (_, values) = server.post("/runs/wait", &run).await;
    let message = |idx: usize| {
        let mut message = values["messages"][idx].clone();
        message.as_object_mut().unwrap().remove("id").unwrap();
        message
    };
    let common = |mut own: serde_json::Value| {
        own["additional_kwargs"] = json!({});
        own["response_metadata"] = json!({});
        own["name"] = json!(null);
        own
    };
    assert_eq!(message(0), common(json!({ "type": "human", "content": "hi" })));
    let call = json!({ "id": "c1", "name": "add", "args": {}, "type": "tool_call" });
    let expected = json!({
        "type": "ai", "content": "", "tool_calls": [call], "invalid_tool_calls": [],
        "usage_metadata": null,
    });
    assert_eq!(message(1), common(expected));
    let expected = json!({
        "type": "tool", "content": "2", "tool_call_id": "c1", "artifact": null, "status": "success",
    });
    assert_eq!(message(2), common(expected));
}
