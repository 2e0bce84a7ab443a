//! Fuzz target for request bodies of LangGraph's API: no body makes a handler panic or fail with a server error.

use std::{
    cell::{Cell, RefCell},
    time::Duration,
};

use axum::{
    body::{Body, to_bytes},
    http::{Request, StatusCode},
};
use fuzz_testkit::Fuzzer;
use graph_core::{JsonFieldKind, JsonStateSchema, START, json_node};
use graph_server::langgraph::{Graphs, LangGraphApi, Schemas};
use serde_json::{Value, json};
use tokio::{runtime, time::timeout};
use tower::ServiceExt;

/// Number of requests that one server answers.
const MAX_REQUESTS: u32 = 500;

const THREAD: &str = "0190a1b2-0000-7000-8000-000000000000";

/// Requests with a valid body. The first byte of an input selects a request, whose body is the rest of the input.
fn requests() -> Vec<(&'static str, String, Value)> {
    let of_thread = |path: &str| format!("/threads/{THREAD}/{path}");
    let path = |path: &str| path.to_owned();
    let metadata = json!({ "a": [1, { "b": null }] });
    let run = json!({
        "assistant_id": "tiny", "input": { "value": "x" }, "metadata": metadata, "config": { "tags": ["t"] },
        "stream_mode": ["values", "updates"], "interrupt_before": ["a"], "multitask_strategy": "enqueue",
        "durability": "sync", "after_seconds": 0, "checkpoint": { "checkpoint_ns": "" },
    });
    let search = json!({
        "metadata": metadata, "limit": 5, "offset": 1, "sort_by": "created_at", "sort_order": "asc", "select": [],
    });
    let rpc = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let message =
        json!({ "messageId": "m", "role": "user", "parts": [{ "kind": "text", "text": "x" }] });
    vec![
        (
            "POST",
            path("/threads"),
            json!({ "metadata": metadata, "if_exists": "raise", "ttl": { "ttl": 1.5 } }),
        ),
        ("POST", path("/threads/search"), search.clone()),
        ("POST", path("/threads/count"), json!({ "status": "idle", "values": { "value": "x" } })),
        ("PATCH", format!("/threads/{THREAD}"), json!({ "metadata": metadata })),
        ("POST", of_thread("state"), json!({ "values": { "value": "y" }, "as_node": "a" })),
        (
            "POST",
            of_thread("history"),
            json!({ "limit": 3, "before": { "checkpoint_id": THREAD } }),
        ),
        ("POST", of_thread("runs"), run.clone()),
        (
            "POST",
            of_thread("commands"),
            json!({ "id": 1, "method": "state.get", "params": { "namespace": ["a"] } }),
        ),
        ("POST", path("/runs"), run.clone()),
        ("POST", path("/runs/batch"), json!([run])),
        ("POST", path("/runs/cancel"), json!({ "status": "all" })),
        (
            "POST",
            path("/runs/crons"),
            json!({ "assistant_id": "tiny", "schedule": "0 0 1 1 *", "timezone": "UTC" }),
        ),
        ("POST", path("/runs/crons/search"), search.clone()),
        ("POST", path("/assistants"), json!({ "graph_id": "tiny", "name": "n", "context": {} })),
        ("POST", path("/assistants/search"), search),
        (
            "PUT",
            path("/store/items"),
            json!({ "namespace": ["n"], "key": "k", "value": { "v": 1 } }),
        ),
        (
            "POST",
            path("/store/items/search"),
            json!({ "namespace_prefix": ["n"], "filter": { "v": { "$gt": 0 } } }),
        ),
        ("POST", path("/store/namespaces"), json!({ "prefix": ["n"], "max_depth": 2 })),
        ("POST", path("/mcp"), rpc("tools/list", json!({}))),
        ("POST", path("/a2a/tiny"), rpc("message/send", json!({ "message": message }))),
    ]
}

/// Opens a server with the thread [`THREAD`].
async fn open() -> LangGraphApi {
    let fields = [("value", JsonFieldKind::Last), ("messages", JsonFieldKind::Append)];
    let schema = JsonStateSchema::new(fields).unwrap();
    let node = json_node("a", |_, _| async { Ok(json!({ "value": "b" })) });
    let graph = schema.graph().node(node).edge(START, "a");
    let graphs = Graphs::in_memory().add("tiny", graph, Schemas::default()).unwrap();
    let api = LangGraphApi::open(graphs, ":memory:").await.unwrap();
    let thread = json!({ "thread_id": THREAD, "graph_id": "tiny" }).to_string();
    let created = send(&api, "POST", "/threads", thread.into_bytes()).await;
    assert_eq!(created.0, 200, "{created:?}");
    api
}

/// Sends a request. Returns the status and the constant part of the error message.
async fn send(api: &LangGraphApi, method: &str, path: &str, body: Vec<u8>) -> (u16, String) {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/json").body(Body::from(body));
    let response = api.routes().oneshot(request.unwrap()).await.unwrap();
    let status = response.status();
    assert!(!status.is_server_error(), "{method} {path}: {status}");
    if status < StatusCode::BAD_REQUEST {
        return (status.as_u16(), String::new());
    }
    let error = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    let error = String::from_utf8_lossy(&error);
    (status.as_u16(), error.split('`').next().unwrap_or_default().to_owned())
}

#[test]
fn fuzz_request_bodies() {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (api, n_sent) = (RefCell::new(runtime.block_on(open())), Cell::new(0));
    let requests = requests();
    let seed = |(index, (_, _, body)): (usize, &(&str, String, Value))| {
        let mut input = vec![u8::try_from(index).unwrap()];
        input.extend(body.to_string().into_bytes());
        input
    };
    let words =
        ["null", "{}", "[]", "\"", ",", ":", "-1", "1e999", "\\u0000", "9223372036854775808"];
    let fuzzer = Fuzzer::new("request_bodies").seeds(requests.iter().enumerate().map(seed));
    fuzzer.words(words).run(|input| {
        let Some((&selector, body)) = input.split_first() else { return (0, 0, String::new()) };
        let index = usize::from(selector) % requests.len();
        let (method, path, _) = &requests[index];
        // Searches become slow if the server has many objects.
        n_sent.set(n_sent.get() + 1);
        if n_sent.get() % MAX_REQUESTS == 0 {
            runtime.block_on(api.borrow().shut_down());
            api.replace(runtime.block_on(open()));
        }
        let api = api.borrow();
        let sending = send(&api, method, path, body.to_vec());
        let sent = runtime.block_on(async { timeout(Duration::from_secs(300), sending).await });
        let (status, error) = sent.expect("the server answers every request");
        (index, status, error)
    });
}
