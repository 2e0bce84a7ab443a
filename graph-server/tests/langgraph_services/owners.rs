//! The objects of one owner are invisible to other clients on all routes.

use reqwest::Method;
use serde_json::{Value, json};

use crate::auth::{User, server, user};

const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

/// The objects of one client.
struct Objects {
    assistant: String,
    thread: String,
    /// An active run on the thread.
    run: String,
    cron: String,
}

impl Objects {
    async fn create(user: &User<'_>) -> Self {
        let id = |object: &Value, key: &str| object[key].as_str().unwrap().to_owned();
        let (_, assistant) = user.post("/assistants", json!({ "graph_id": "chat" })).await;
        let assistant = id(&assistant, "assistant_id");
        let (_, thread) = user.post("/threads", json!({})).await;
        let thread = id(&thread, "thread_id");
        let run = json!({ "assistant_id": "slow", "input": { "steps": 1, "delay": 3600 } });
        let (_, run) = user.post(&format!("/threads/{thread}/runs"), run).await;
        let cron = json!({ "assistant_id": assistant, "schedule": "0 0 1 1 *" });
        let (_, cron) = user.post("/runs/crons", cron).await;
        Self { assistant, thread, run: id(&run, "run_id"), cron: id(&cron, "cron_id") }
    }
}

fn rpc(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

fn ag_ui(thread: &str) -> Value {
    json!({ "threadId": thread, "runId": "r", "messages": [], "tools": [], "context": [] })
}

#[tokio::test]
async fn objects_of_other_owners_do_not_exist_on_any_route() {
    let server = server().await;
    let (ada, bob) = (user(&server, "ada"), user(&server, "bob"));
    let Objects { assistant, thread, run, cron } = Objects::create(&ada).await;
    let (own, of_run) = (format!("/threads/{thread}"), format!("/threads/{thread}/runs/{run}"));
    let (of_assistant, of_cron) =
        (format!("/assistants/{assistant}"), format!("/runs/crons/{cron}"));
    let start = json!({ "assistant_id": "tiny", "input": { "value": "x" } });
    let foreign = json!({ "assistant_id": assistant, "input": { "messages": [] } });
    let schedule = json!({ "assistant_id": "tiny", "schedule": "0 0 1 1 *" });
    let foreign_schedule = json!({ "assistant_id": assistant, "schedule": "0 0 1 1 *" });
    let (get, post, patch, delete) = (Method::GET, Method::POST, Method::PATCH, Method::DELETE);
    let requests = [
        (&patch, own.clone(), json!({ "metadata": { "a": 1 } })),
        (&patch, own.clone(), json!({ "ttl": { "ttl": 1 } })),
        (&get, format!("{own}/history"), Value::Null),
        (&get, format!("{own}/state/{UNKNOWN}"), Value::Null),
        (&post, format!("{own}/state/checkpoint"), json!({ "checkpoint": {} })),
        (&post, format!("{own}/runs"), start.clone()),
        (&post, format!("{own}/runs/stream"), start),
        (&post, format!("{own}/runs/crons"), schedule),
        (&delete, of_run.clone(), Value::Null),
        (&post, "/runs/cancel".to_owned(), json!({ "status": "all" })),
        (&post, "/runs/cancel".to_owned(), json!({ "thread_id": thread, "run_ids": [run] })),
        (&post, "/runs".to_owned(), foreign.clone()),
        (&post, "/runs/wait".to_owned(), foreign.clone()),
        (&post, "/runs/stream".to_owned(), foreign.clone()),
        (&post, "/runs/batch".to_owned(), json!([foreign])),
        (&post, "/runs/crons".to_owned(), foreign_schedule),
        (&post, "/runs/crons/search".to_owned(), json!({ "assistant_id": assistant })),
        (&patch, of_cron.clone(), json!({ "enabled": false })),
        (&delete, of_cron.clone(), Value::Null),
        (&get, format!("{of_assistant}/graph"), Value::Null),
        (&get, format!("{of_assistant}/schemas"), Value::Null),
        (&get, format!("{of_assistant}/subgraphs"), Value::Null),
        (&get, format!("{of_assistant}/subgraphs/x"), Value::Null),
        (&post, format!("{of_assistant}/versions"), json!({})),
        (&post, format!("{of_assistant}/latest"), json!({ "version": 1 })),
        (&patch, of_assistant.clone(), json!({ "name": "mine" })),
        (&delete, of_assistant.clone(), Value::Null),
        (&get, format!("/.well-known/agent-card.json?assistant_id={assistant}"), Value::Null),
        (&post, format!("/a2a/{assistant}"), rpc("tasks/get", &json!({ "id": run }))),
        (&post, format!("/ag-ui/{assistant}"), ag_ui("t")),
        (&post, "/ag-ui/chat".to_owned(), ag_ui(&thread)),
        (&post, format!("/ai-sdk/{assistant}"), json!({ "id": "c", "messages": [] })),
        (&post, "/ai-sdk/chat".to_owned(), json!({ "id": thread, "messages": [] })),
        (&get, format!("/ai-sdk/chat/{thread}/stream"), Value::Null),
    ];
    for (method, path, body) in requests {
        let (status, answer) = bob.send(method.clone(), &path, body).await;
        assert_eq!(status, 404, "{method} {path}: {answer}");
    }
    let (_, pruned) = bob.post("/threads/prune", json!({ "thread_ids": [thread] })).await;
    assert_eq!(pruned, json!({ "pruned_count": 0 }));
    for path in [&own, &of_run, &of_assistant, &of_cron] {
        assert_eq!(ada.status(path).await, 200, "{path}");
    }
    let (_, run) = ada.send(Method::GET, &of_run, Value::Null).await;
    assert!(["pending", "running"].contains(&run["status"].as_str().unwrap()), "{run}");
}

#[tokio::test]
async fn agents_do_not_use_the_tasks_and_threads_of_other_owners() {
    let server = server().await;
    let (ada, bob) = (user(&server, "ada"), user(&server, "bob"));
    let Objects { thread, run, .. } = Objects::create(&ada).await;
    for method in ["tasks/get", "tasks/cancel"] {
        let (_, answer) = bob.post("/a2a/chat", rpc(method, &json!({ "id": run }))).await;
        assert_eq!(answer["error"]["code"], -32001, "{answer}");
    }
    let parts = json!([{ "kind": "text", "text": "hi" }]);
    let message = json!({ "role": "user", "contextId": thread, "parts": parts });
    let (_, answer) =
        bob.post("/a2a/chat", rpc("message/send", &json!({ "message": message }))).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let tool = json!({ "name": "tiny", "arguments": { "value": "x" } });
    let (_, answer) = bob.post("/mcp", rpc("tools/call", &tool)).await;
    assert_eq!(answer["result"]["structuredContent"]["value"], "xab", "{answer}");
    assert_eq!(ada.post("/threads/count", json!({})).await.1, 1);
}

#[tokio::test]
async fn a_time_to_live_that_an_admin_sets_belongs_to_the_owner_of_the_thread() {
    let server = server().await;
    let (ada, admin) = (user(&server, "ada"), user(&server, "admin"));
    let path = ada.new_thread().await;
    let ttl = json!({ "ttl": { "ttl": 60 } });
    assert_eq!(admin.send(Method::PATCH, &path, ttl).await.0, 200);
    let (_, shown) = ada.send(Method::GET, &format!("{path}?include=ttl"), json!({})).await;
    assert_eq!(shown["ttl"]["ttl_minutes"], 60.0, "{shown}");
}

#[tokio::test]
async fn a_version_that_an_admin_stores_belongs_to_the_owner_of_the_assistant() {
    let server = server().await;
    let (ada, bob, admin) = (user(&server, "ada"), user(&server, "bob"), user(&server, "admin"));
    let (_, assistant) = ada.post("/assistants", json!({ "graph_id": "chat" })).await;
    let own = format!("/assistants/{}", assistant["assistant_id"].as_str().unwrap());
    let (_, shared) = admin.send(Method::GET, "/assistants/chat", Value::Null).await;
    let shared = format!("/assistants/{}", shared["assistant_id"].as_str().unwrap());
    for (path, owner) in [(own, &ada), (shared, &bob)] {
        let rename = json!({ "name": "renamed" });
        assert_eq!(admin.send(Method::PATCH, &path, rename).await.0, 200);
        let (_, versions) = owner.post(&format!("{path}/versions"), json!({})).await;
        let names: Vec<_> = versions.as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert_eq!(names.len(), 2, "{versions}");
        assert_eq!(names[0], "renamed");
    }
}
