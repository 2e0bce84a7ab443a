//! Runs of a service as a graph of LangGraph's API.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use axum::{body::Body, http::Request};
use graph_server::{
    Capacity, NewRun, Registry, RunInfo, Service, Status,
    http::Problem,
    langgraph::{Graphs, LangGraphApi, Schemas, ServiceRuns, service_graph},
};
use serde_json::{Map, Value, json};
use tower::ServiceExt;

use crate::service::Counter;

/// Starts runs of a [`Counter`] with the ids `run-1`, `run-2`, ... and accepts numbers as answers.
struct Counting {
    service: Service,
    n_runs: AtomicUsize,
}

#[async_trait]
impl ServiceRuns for Counting {
    async fn start(&self, input: Map<String, Value>) -> Result<RunInfo, Problem> {
        let id = format!("run-{}", self.n_runs.fetch_add(1, Ordering::Relaxed) + 1);
        let (subject, input) = ("counting".to_owned(), Value::Object(input));
        Ok(self.service.start(NewRun { id, subject, input }).await?)
    }

    async fn question(&self, run: &RunInfo) -> Result<Value, Problem> {
        Ok(json!({ "run_id": run.id, "asks": "How far?" }))
    }

    fn answer(&self, answer: Value) -> Result<Value, Problem> {
        match answer.is_u64() {
            true => Ok(answer),
            false => Err(Problem::invalid(format!("{answer} is not a number"))),
        }
    }
}

/// Opens a service with this runner, and an API with the graph of the service.
async fn open(counter: &Counter) -> (Service, LangGraphApi) {
    let registry = Registry::in_memory().unwrap();
    let runner = Arc::new(counter.clone());
    let service = Service::open(registry, runner, Capacity::default()).await.unwrap();
    let runs = Counting { service: service.clone(), n_runs: AtomicUsize::new(0) };
    let graph = service_graph(&service, &["to", "fails", "waits"], runs);
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
async fn the_graph_publishes_the_events_and_the_result_of_its_service_run() {
    let (_, api) = open(&Counter::new(100)).await;
    let stream = post(&api, "/runs/stream", count(&json!({ "to": 2 }))).await;
    for event in [r#"{"seq":1}"#, r#"{"seq":2}"#] {
        assert_eq!(stream.matches(event).count(), 1, "{stream}");
    }
    let output = post_json(&api, "/runs/wait", count(&json!({ "to": 3 }))).await;
    let fields = ["to", "run_id", "status", "outcome"].map(|it| output[it].clone());
    assert_eq!(fields, [json!(3), json!("run-2"), json!("complete"), json!(3)]);
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

/// Returns a request that answers an interrupt.
fn resume(answer: &Value) -> Value {
    json!({ "assistant_id": "count", "command": { "resume": answer }, "stream_mode": "custom" })
}

#[tokio::test]
async fn a_run_that_waits_for_an_answer_interrupts_the_graph() {
    let (service, api) = open(&Counter::new(100)).await;
    let thread = post_json(&api, "/threads", json!({})).await;
    let runs = format!("/threads/{}/runs", thread["thread_id"].as_str().unwrap());
    let input = json!({ "to": 1, "waits": true });
    let waiting = post_json(&api, &format!("{runs}/wait"), count(&input)).await;
    let question = &waiting["__interrupt__"][0]["value"];
    assert_eq!(*question, json!({ "run_id": "run-1", "asks": "How far?" }), "{waiting}");
    assert_eq!(service.get("run-1").await.unwrap().status, Status::Waiting, "it is not cancelled");

    let rejected = post_json(&api, &format!("{runs}/wait"), resume(&json!("far"))).await;
    let message = rejected["__error__"]["message"].as_str().unwrap();
    assert!(message.contains("not a number"), "{rejected}");
    assert_eq!(service.get("run-1").await.unwrap().status, Status::Waiting);

    let stream = post(&api, &format!("{runs}/stream"), resume(&json!(3))).await;
    for (event, count) in [(r#"{"seq":1}"#, 0), (r#"{"seq":2}"#, 1), (r#"{"seq":3}"#, 1)] {
        assert_eq!(stream.matches(event).count(), count, "only new events are sent: {stream}");
    }
    let run = service.get("run-1").await.unwrap();
    assert_eq!(
        (run.status, &run.outcome, &run.resume_args),
        (Status::Complete, &json!(3), &json!(3))
    );
    let state = runs.replace("/runs", "/state");
    let request = Request::get(state.as_str()).body(Body::empty()).unwrap();
    let response = api.routes().oneshot(request).await.unwrap();
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    let state: Value = serde_json::from_slice(&bytes).unwrap();
    let fields = ["run_id", "status", "outcome"].map(|it| state["values"][it].clone());
    assert_eq!(fields, [json!("run-1"), json!("complete"), json!(3)], "{state}");
}

#[tokio::test]
async fn a_run_that_another_client_has_answered_is_followed() {
    let (service, api) = open(&Counter::new(100)).await;
    let thread = post_json(&api, "/threads", json!({})).await;
    let wait = format!("/threads/{}/runs/wait", thread["thread_id"].as_str().unwrap());
    post(&api, &wait, count(&json!({ "to": 1, "waits": true }))).await;
    service.resume("run-1", json!(2)).await.unwrap();
    let output = post_json(&api, &wait, resume(&json!(7))).await;
    assert_eq!(
        (&output["status"], &output["outcome"]),
        (&json!("complete"), &json!(2)),
        "{output}"
    );
}
