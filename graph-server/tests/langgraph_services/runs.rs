//! Options and outcomes of runs.

use std::time::Duration;

use graph_core::{START, State, StateGraph};
use graph_server::langgraph::Schemas;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::server::{Server, events};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Stuck {
    note: String,
}

async fn wait(_: &Stuck) {
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn runs_that_exceed_the_step_timeout_have_the_status_timeout() {
    let graph = StateGraph::<Stuck>::new().node(wait).edge(START, wait);
    let graph = graph.step_timeout(Duration::from_millis(1));
    let add = |graphs: graph_server::langgraph::Graphs| {
        graphs.add("stuck", graph, Schemas::default()).unwrap()
    };
    let server = Server::start_with_graphs(add).await;
    let thread = server.new_thread().await;
    let runs = format!("/threads/{thread}/runs");
    let body = json!({ "assistant_id": "stuck", "input": { "note": "x" } });
    let (_, output) = server.post(&format!("{runs}/wait"), &body).await;
    assert_eq!(output["__error__"]["error"], "TimeoutError", "{output}");
    let (_, found) = server.get(&format!("{runs}?status=timeout")).await;
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
}

#[tokio::test]
async fn the_events_stream_shows_the_name_and_tags_of_the_run() {
    let server = Server::start().await;
    let body = json!({
        "assistant_id": "tiny",
        "input": { "value": "x" },
        "stream_mode": "events",
        "config": { "run_name": "nightly", "tags": ["a"] },
    });
    let events = events(&server.post_text("/runs/stream", &body).await);
    let root = events.iter().find(|it| it["event"] == "on_chain_start").unwrap();
    assert_eq!((&root["name"], &root["tags"]), (&json!("nightly"), &json!(["a"])));
    let node = events.iter().find(|it| it["event"] == "on_chain_stream").unwrap();
    assert_eq!(node["tags"], json!(["a", "graph:step:1"]), "{node}");
}

#[tokio::test]
async fn options_without_an_effect_are_rejected() {
    let server = Server::start().await;
    let body = json!({ "assistant_id": "tiny", "config": { "run_id": "x" } });
    let (status, rejected) = server.post("/runs/wait", &body).await;
    assert_eq!(status, 422);
    assert!(rejected["detail"].as_str().unwrap().contains("run_id"), "{rejected}");
}

/// Returns the names of the events in a stream.
async fn event_names(server: &Server, path: &str) -> Vec<String> {
    let request = server.request(Method::GET, path).header("last-event-id", "-1");
    let text = request.send().await.unwrap().text().await.unwrap();
    text.lines().filter_map(|it| it.strip_prefix("event: ")).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_client_that_joins_a_run_selects_its_events() {
    let server = Server::start().await;
    let thread = server.new_thread().await;
    let body = json!({ "assistant_id": "tiny", "input": { "value": "x" } });
    let (_, run) = server.post(&format!("/threads/{thread}/runs"), &body).await;
    let run = run["run_id"].as_str().unwrap();
    for path in [format!("/threads/{thread}/runs/{run}/stream"), format!("/runs/{run}/stream")] {
        let values = event_names(&server, &path).await;
        assert_eq!(values, ["metadata", "values", "values", "values"], "{path}");
        // A repeated mode sends no event twice.
        let updates = format!("{path}?stream_mode=updates&stream_mode=updates");
        assert_eq!(event_names(&server, &updates).await, ["metadata", "updates", "updates"]);
        assert_eq!(server.get(&format!("{path}?stream_mode=surprise")).await.0, 422);
        assert_eq!(server.get(&format!("{path}?surprise=1")).await.0, 422);
    }
}

#[tokio::test]
async fn a_rejected_join_does_not_cancel_the_run() {
    let server = Server::start().await;
    let runs = format!("/threads/{}/runs", server.new_thread().await);
    let body = json!({ "assistant_id": "slow", "input": { "steps": 1, "delay": 3600 } });
    let (_, run) = server.post(&runs, &body).await;
    let id = run["run_id"].as_str().unwrap();
    let own = format!("{runs}/{id}");
    for path in [&own, &format!("/runs/{id}")] {
        let join = format!("{path}/stream?cancel_on_disconnect=1");
        let join = server.request(Method::GET, &join).header("last-event-id", "surprise");
        assert_eq!(join.send().await.unwrap().status(), 422, "{path}");
    }
    assert_eq!(server.post(&format!("{own}/cancel?wait=1"), &json!({})).await.0, 200);
    let (_, run) = server.get(&own).await;
    assert_eq!(run["cancel_reason"], "a client cancelled the run");
}

#[tokio::test]
async fn a_repeated_stream_mode_sends_no_event_twice() {
    let server = Server::start().await;
    let body = json!({
        "assistant_id": "tiny",
        "input": { "value": "x" },
        "stream_mode": ["updates", "updates"],
    });
    let text = server.post_text("/runs/stream", &body).await;
    assert_eq!(text.matches("event: updates").count(), 2, "{text}");
}

#[tokio::test]
async fn the_assistant_of_a_batch_may_be_repeated_as_the_javascript_client_does() {
    let server = Server::start().await;
    let batch = |repeated: &str| {
        let run = json!({ "assistant_id": "tiny", "assistantId": repeated, "input": {} });
        json!([run])
    };
    assert_eq!(server.post("/runs/batch", &batch("tiny")).await.0, 200);
    let (status, rejected) = server.post("/runs/batch", &batch("chat")).await;
    assert_eq!(status, 422);
    assert!(rejected["detail"].as_str().unwrap().contains("assistantId"), "{rejected}");
}
