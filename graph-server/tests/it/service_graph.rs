//! Runs of a service as a graph of LangGraph's API.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{body::Body, http::Request};
use graph_server::{
    Capacity, NewRun, Registry, Service, Status,
    langgraph::{Graphs, LangGraphApi, Schemas, service_graph},
};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::service::Counter;

/// Opens a service that counts, and an API with its graph. The runs of the service are `run-1`, `run-2`, ...
async fn open(counter: &Counter) -> (Service, LangGraphApi) {
    let registry = Registry::in_memory().unwrap();
    let runner = Arc::new(counter.clone());
    let service = Service::open(registry, runner, Capacity::default()).await.unwrap();
    let (starter, n_runs) = (service.clone(), Arc::new(AtomicUsize::new(0)));
    let graph = service_graph(&service, &["to", "fails", "waits"], move |input| {
        let (starter, n_runs) = (starter.clone(), n_runs.clone());
        async move {
            let id = format!("run-{}", n_runs.fetch_add(1, Ordering::Relaxed) + 1);
            let (subject, input) = ("counting".to_owned(), Value::Object(input));
            Ok(starter.start(NewRun { id, subject, input }).await?)
        }
    });
    let graphs = Graphs::in_memory().add("count", graph.unwrap(), Schemas::default()).unwrap();
    (service, LangGraphApi::open(graphs, ":memory:").await.unwrap())
}

async fn post(api: &LangGraphApi, path: &str, body: Value) -> String {
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(Body::from(body.to_string())).unwrap();
    let response = api.routes().oneshot(request).await.unwrap();
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn post_json(api: &LangGraphApi, path: &str, body: Value) -> Value {
    serde_json::from_str(&post(api, path, body).await).unwrap()
}

fn count(input: &Value) -> Value {
    json!({ "assistant_id": "count", "input": input, "stream_mode": "custom" })
}

#[tokio::test]
async fn the_events_and_the_result_of_a_run_are_those_of_the_graph() {
    let (_, api) = open(&Counter::new(100)).await;
    let stream = post(&api, "/runs/stream", count(&json!({ "to": 2 }))).await;
    for event in [r#"{"seq":1}"#, r#"{"seq":2}"#] {
        assert_eq!(stream.matches(event).count(), 1, "{stream}");
    }
    let output = post_json(&api, "/runs/wait", count(&json!({ "to": 3 }))).await;
    let fields = ["to", "run_id", "status", "outcome"].map(|it| output[it].clone());
    assert_eq!(fields, [json!(3), json!("run-2"), json!("complete"), json!(3)]);
    let waiting = post_json(&api, "/runs/wait", count(&json!({ "waits": true }))).await;
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    let failed = post_json(&api, "/runs/wait", count(&json!({ "fails": "no luck" }))).await;
    let message = failed["__error__"]["message"].as_str().unwrap();
    assert!(message.contains("no luck"), "{failed}");
}

#[tokio::test]
async fn a_cancelled_run_is_cancelled_in_the_service_and_continues_when_it_is_resumed() {
    let counter = Counter::new(1);
    let (service, api) = open(&counter).await;
    let thread = post_json(&api, "/threads", json!({})).await;
    let runs = format!("/threads/{}/runs", thread["thread_id"].as_str().unwrap());
    let run = post_json(&api, &runs, count(&json!({ "to": 2 }))).await;
    while !matches!(service.get("run-1").await, Ok(run) if run.status == Status::Running) {
        tokio::task::yield_now().await;
    }
    let run = run["run_id"].as_str().unwrap();
    post(&api, &format!("{runs}/{run}/cancel?wait=1"), json!({})).await;
    while service.get("run-1").await.unwrap().status != Status::Cancelled {
        tokio::task::yield_now().await;
    }
    counter.allow(1);
    let output = post_json(&api, &format!("{runs}/wait"), count(&Value::Null)).await;
    assert_eq!((&output["run_id"], &output["outcome"]), (&json!("run-1"), &json!(2)), "{output}");
}
