//! LangGraph's API over restarts of the server. `tests/clients.rs` tests it with LangGraph's own clients.

#[path = "../../examples/reference/graphs/mod.rs"]
mod graphs;

use std::{path::Path, sync::Arc};

use graph_core::{Context, NodeError, START, State, StateGraph};
use graph_server::{
    http::{Guard, Metrics},
    langgraph::{Graphs, LangGraphApi, Schemas},
    serve_until,
};
use graph_store::{Sqlite, SqliteSaver, SqliteStore};
use reqwest::Client;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, oneshot},
    task::{JoinHandle, block_in_place},
};

use crate::schemathesis;

/// A server of LangGraph's API.
struct Server {
    api: LangGraphApi,
    url: String,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Server {
    /// Starts a server that keeps its data in `dir` and hosts the graphs of the example `reference`.
    async fn start(dir: &Path) -> Self {
        Self::start_with(dir, |graphs| graphs::add_all(graphs).unwrap()).await
    }

    /// Starts a server that keeps its data in `dir` and hosts the graphs that `add` adds.
    async fn start_with(dir: &Path, add: impl FnOnce(Graphs) -> Graphs) -> Self {
        let database = Sqlite::open(dir.join("threads.db")).unwrap();
        let saver = Arc::new(SqliteSaver::new(&database));
        let store = Arc::new(SqliteStore::new(&database));
        let graphs = add(Graphs::new(saver, store));
        let api = LangGraphApi::open(graphs, dir.join("api.db")).await.unwrap();
        let guard = Guard::new().rate_limit(u32::MAX);
        let guarded = guard.wrap(api.open_routes(), api.routes(), Metrics::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let stopping = api.clone();
        let shutdown = async move {
            let _ = stopped.await;
            stopping.shut_down().await;
        };
        let serving =
            tokio::spawn(async move { serve_until(listener, guarded, shutdown).await.unwrap() });
        Self { api, url, stop, serving }
    }

    async fn stop(self) {
        let Self { api, stop, serving, .. } = self;
        let _ = stop.send(());
        serving.await.unwrap();
        drop(api);
    }

    /// Returns a client. All clients share one provider of cryptography.
    fn client() -> Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Client::builder().no_proxy().build().unwrap()
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let request = Self::client().post(format!("{}{path}", self.url));
        let request = request.header("content-type", "application/json").body(body.to_string());
        let response = request.send().await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
        serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
    }

    async fn get(&self, path: &str) -> Value {
        let response = Self::client().get(format!("{}{path}", self.url)).send().await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
        serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn active_and_pending_runs_continue_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let thread = server.post("/threads", json!({})).await["thread_id"].clone();
    let thread = thread.as_str().unwrap();
    let runs = format!("/threads/{thread}/runs");
    let slow = json!({ "assistant_id": "slow", "input": { "steps": 40, "delay": 0.4 } });
    let first = server.post(&runs, slow).await["run_id"].clone();
    let short = json!({ "assistant_id": "slow", "input": { "steps": 41, "delay": 0 } });
    let second = server.post(&runs, short).await["run_id"].clone();
    let state = format!("/threads/{thread}/state");
    while server.get(&state).await["values"]["ticks"].as_u64().unwrap_or(0) < 2 {
        tokio::task::yield_now().await;
    }
    server.stop().await;

    let server = Server::start(dir.path()).await;
    let (first, second) = (first.as_str().unwrap(), second.as_str().unwrap());
    server.get(&format!("{runs}/{first}/join")).await;
    let values = server.get(&format!("{runs}/{second}/join")).await;
    // The first run makes 40 ticks in total, over both processes, and the second run adds the last one.
    assert_eq!(values["ticks"], 41);
    let run = server.get(&format!("{runs}/{first}")).await;
    assert_eq!((&run["status"], &run["attempt"]), (&json!("success"), &json!(2)));
    server.stop().await;
}

#[derive(State, Clone, Debug, Default)]
struct Order {
    dish: String,
    drink: String,
}

/// Semaphore that blocks the node `cook` until a permit is added.
type Gate = Arc<Semaphore>;

async fn ask_dish(_: &Order, cx: &Context<Gate>) -> Result<OrderUpdate, NodeError> {
    let dish: String = cx.interrupt("Which dish?")?;
    Ok(Order::update().dish(dish))
}

async fn cook(_: &Order, cx: &Context<Gate>) -> Result<(), NodeError> {
    cx.deps().acquire().await?.forget();
    Ok(())
}

async fn ask_drink(_: &Order, cx: &Context<Gate>) -> Result<OrderUpdate, NodeError> {
    let drink: String = cx.interrupt("Which drink?")?;
    Ok(Order::update().drink(drink))
}

fn add_order(graphs: Graphs, gate: Gate) -> Graphs {
    let graph = StateGraph::<Order, Gate>::new()
        .node(ask_dish)
        .node(cook)
        .node(ask_drink)
        .edge(START, ask_dish)
        .edge(ask_dish, cook)
        .edge(cook, ask_drink);
    graphs.add_with_context("order", graph, Schemas::default(), move |_| Ok(gate.clone())).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_used_once_if_the_server_stops_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let gate: Gate = Arc::new(Semaphore::new(0));
    let server = Server::start_with(dir.path(), |graphs| add_order(graphs, gate.clone())).await;
    let thread = server.post("/threads", json!({})).await["thread_id"].clone();
    let thread = format!("/threads/{}", thread.as_str().unwrap());
    let order = json!({ "assistant_id": "order", "input": { "dish": "?" } });
    server.post(&format!("{thread}/runs/wait"), order).await;
    let answer = json!({ "assistant_id": "order", "command": { "resume": "soup" } });
    let run = server.post(&format!("{thread}/runs"), answer).await["run_id"].clone();
    // The answer has been used when `cook` is the next node.
    let state = format!("{thread}/state");
    while server.get(&state).await["next"] != json!(["cook"]) {
        tokio::task::yield_now().await;
    }
    server.stop().await;

    gate.add_permits(1);
    let server = Server::start_with(dir.path(), |graphs| add_order(graphs, gate)).await;
    server.get(&format!("{thread}/runs/{}/join", run.as_str().unwrap())).await;
    let state = server.get(&state).await;
    assert_eq!(
        (&state["values"]["dish"], &state["interrupts"][0]["value"]),
        (&json!("soup"), &json!("Which drink?")),
        "{state}"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_conform_to_the_openapi_document() {
    let Some(program) = schemathesis::find() else { return };
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let thread = server.post("/threads", json!({})).await["thread_id"].clone();
    let thread = thread.as_str().unwrap();
    let run = json!({ "assistant_id": "tiny", "input": { "value": "x" } });
    let run = server.post(&format!("/threads/{thread}/runs"), run).await["run_id"].clone();
    let run = run.as_str().unwrap();
    // Whether valid requests succeed depends on the graphs and threads, which the document does not describe. The
    // document is narrower than the server in places, so requests outside it may succeed.
    let configuration = format!(
        r#"
[checks]
positive_data_acceptance.enabled = false
negative_data_rejection.enabled = false

[dictionaries]
threads.values = ["{thread}"]
runs.values = ["{run}"]
graphs.values = ["tiny", "approval"]

[parameters]
"path.thread_id" = {{ dictionary = "threads", probability = 0.7 }}
"path.run_id" = {{ dictionary = "runs", probability = 0.7 }}
"path.assistant_id" = {{ dictionary = "graphs", probability = 0.7 }}
"#
    );
    // Streams of threads stay open, so they are left out.
    let more = ["--exclude-path-regex", "thread_id}/stream"];
    block_in_place(|| schemathesis::run(&program, &server.url, &configuration, &more));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_are_rejected_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let cases = [
        ("/runs/wait", json!({ "assistant_id": "tiny", "bogus": 1 }), "bogus"),
        ("/runs/wait", json!({ "assistant_id": "tiny", "stream_mode": "x" }), "stream mode"),
        (
            "/runs/wait",
            json!({ "assistant_id": "tiny", "after_seconds": -1 }),
            "`after_seconds` is -1",
        ),
        ("/runs/wait", json!({ "assistant_id": "tiny", "checkpoint_id": "x" }), "checkpoint id"),
        ("/threads", json!({ "ttl": 5 }), "ttl"),
        ("/threads/search", json!({ "limit": 0 }), "`limit` is 0"),
        ("/assistants/search", json!({ "select": ["x"] }), "select"),
    ];
    for (path, body, reason) in cases {
        let request = Server::client().post(format!("{}{path}", server.url));
        let request = request.header("content-type", "application/json").body(body.to_string());
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 422, "{path} {body}");
        let text = String::from_utf8(response.bytes().await.unwrap().to_vec()).unwrap();
        assert!(text.contains("detail") && text.contains(reason), "{text}");
    }
    server.stop().await;
}
