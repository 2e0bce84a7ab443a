//! Runs that an executor executes, including while the executor is unavailable.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use graph_core::{Event, START, State, StateGraph};
use graph_server::langgraph::{
    ApiOptions, ExecutorError, ExecutorInput, ExecutorOutcome, ExecutorRun, Graphs, RunExecutor,
    Schemas,
};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use test_support::DEADLINE;
use tokio::time::{sleep, timeout};

use crate::{auth::guard, server::Server};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Note {
    note: String,
}

async fn write(_: &Note) -> NoteUpdate {
    Note::update().note("written")
}

/// Starts runs that never end, and is available for other operations only if the test allows it.
#[derive(Clone, Debug, Default)]
struct Endless(Arc<Calls>);

#[derive(Debug, Default)]
struct Calls {
    is_available: AtomicBool,
    has_cancelled: AtomicBool,
    started: Mutex<Vec<ExecutorRun>>,
}

impl Endless {
    fn check(&self) -> Result<(), ExecutorError> {
        match self.0.is_available.load(Ordering::Acquire) {
            true => Ok(()),
            false => Err(ExecutorError::Unavailable("it restarts".to_owned())),
        }
    }

    fn started(&self) -> Vec<ExecutorRun> {
        self.0.started.lock().unwrap().clone()
    }
}

#[async_trait]
impl RunExecutor for Endless {
    async fn has_started(&self, _: &str) -> Result<bool, ExecutorError> {
        Ok(false)
    }

    async fn start(&self, run: &ExecutorRun) -> Result<(), ExecutorError> {
        self.0.started.lock().unwrap().push(run.clone());
        Ok(())
    }

    async fn watch(
        &self,
        _: &str,
        _: &mut (dyn FnMut(Event) + Send),
    ) -> Result<ExecutorOutcome, ExecutorError> {
        std::future::pending().await
    }

    async fn cancel(&self, _: &str) -> Result<(), ExecutorError> {
        self.0.has_cancelled.store(true, Ordering::Release);
        self.check()
    }

    async fn delete_thread(&self, _: &str) -> Result<(), ExecutorError> {
        self.check()
    }
}

/// Starts a server whose graph `note` is executed by the returned executor.
async fn start() -> (Server, Endless) {
    let executor = Endless::default();
    let server = Server::start_with_graphs(|graphs| add_note(graphs, &executor)).await;
    (server, executor)
}

/// Adds the graph `note`, which the executor executes.
fn add_note(graphs: Graphs, executor: &Endless) -> Graphs {
    let graph = StateGraph::<Note>::new().node(write).edge(START, write);
    let graphs = graphs.add("note", graph, Schemas::default()).unwrap();
    graphs.execute_with("note", executor.clone()).unwrap()
}

/// Starts a run on a new thread, and waits until the executor has started it. Returns the paths of the thread and of
/// the run.
async fn start_run(server: &Server, executor: &Endless, body: &Value) -> (String, String) {
    let thread = format!("/threads/{}", server.new_thread().await);
    let (status, run) = server.post(&format!("{thread}/runs"), body).await;
    assert_eq!(status, 200, "{run}");
    let path = format!("{thread}/runs/{}", run["run_id"].as_str().unwrap());
    wait_until(async || !executor.started().is_empty()).await;
    (thread, path)
}

async fn wait_until(is_done: impl AsyncFn() -> bool) {
    let done = async {
        while !is_done().await {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(DEADLINE, done).await.expect("the condition is never met");
}

fn with_input() -> Value {
    json!({ "assistant_id": "note", "input": { "note": "x" } })
}

#[tokio::test]
async fn a_cancelled_run_ends_when_the_executor_is_available() {
    let (server, executor) = start().await;
    let (_, run) = start_run(&server, &executor, &with_input()).await;
    server.post(&format!("{run}/cancel"), &json!({})).await;
    wait_until(async || executor.0.has_cancelled.load(Ordering::Acquire)).await;
    assert_eq!(server.get(&run).await.1["status"], "running");
    executor.0.is_available.store(true, Ordering::Release);
    wait_until(async || server.get(&run).await.1["status"] == "interrupted").await;
}

#[tokio::test]
async fn the_server_shuts_down_while_a_run_cannot_be_cancelled() {
    let (server, executor) = start().await;
    let (_, run) = start_run(&server, &executor, &with_input()).await;
    server.post(&format!("{run}/cancel"), &json!({})).await;
    wait_until(async || executor.0.has_cancelled.load(Ordering::Acquire)).await;
    timeout(DEADLINE, server.shut_down()).await.expect("the server waits for the executor");
    assert_eq!(server.get(&run).await.1["status"], "running");
}

#[tokio::test]
async fn threads_of_other_graphs_do_not_depend_on_the_executor() {
    let (server, _executor) = start().await;
    let tiny = json!({ "assistant_id": "tiny", "input": { "value": "x" } });
    let (status, output) = server.post("/runs/wait", &tiny).await;
    assert_eq!((status, &output["__error__"]), (200, &Value::Null), "{output}");
    let thread = format!("/threads/{}", server.new_thread().await);
    server.post(&format!("{thread}/runs/wait"), &tiny).await;
    let (status, answer) = server.send(Method::DELETE, &thread, &json!({})).await;
    assert!((200..300).contains(&status), "{status}: {answer}");
    let own = json!({ "metadata": { "graph_id": "note" } });
    let (_, own) = server.post("/threads", &own).await;
    let own = format!("/threads/{}", own["thread_id"].as_str().unwrap());
    assert_eq!(server.send(Method::DELETE, &own, &json!({})).await.0, 500);
}

#[tokio::test]
async fn a_single_answer_is_passed_without_an_interrupt_id_and_unknown_fields_are_ignored() {
    let (server, executor) = start().await;
    let command = json!({ "resume": "yes", "update": { "note": "x", "unknown": 1 } });
    let body = json!({ "assistant_id": "note", "command": command });
    start_run(&server, &executor, &body).await;
    let expected = ExecutorInput::Command {
        answer: Some(json!("yes")),
        answers: BTreeMap::new(),
        update: Map::from_iter([("note".to_owned(), json!("x"))]),
        targets: Vec::new(),
    };
    let inputs: Vec<_> = executor.started().into_iter().map(|it| it.input).collect();
    assert_eq!(inputs, [expected]);
}

#[tokio::test]
async fn the_owner_and_the_trace_context_are_passed() {
    let executor = Endless::default();
    let add = |graphs| add_note(graphs, &executor);
    let server = Server::start_with(ApiOptions::default(), guard(), add, |api| api).await;
    let trace_parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let request = server.json_request(Method::POST, "/runs", &with_input());
    let request = request.bearer_auth("key of bob").header("traceparent", trace_parent);
    let response = request.send().await.unwrap();
    assert!(response.status().is_success(), "{}", response.status());
    wait_until(async || !executor.started().is_empty()).await;
    let run = executor.started().remove(0);
    assert_eq!(run.owner.as_deref(), Some("bob"));
    assert_eq!(run.trace_parent.as_deref(), Some(trace_parent));
}
