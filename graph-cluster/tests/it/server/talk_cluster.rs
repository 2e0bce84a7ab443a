//! A worker in this process, and the graph that it executes.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use graph_cluster::{Client, PostgresQueue, RegisteredGraph, RunStore, Worker};
use graph_core::{CompiledGraph, Context, NodeError, START, State, StateGraph};
use graph_server::langgraph::NamedError;
use graph_store::PostgresSaver;
use graph_tests::postgres;
use serde_json::json;
use tokio::sync::{Semaphore, oneshot};

use crate::cluster::LONG_LEASE;

#[derive(State, Clone, Debug, Default)]
pub(super) struct Talk {
    topic: String,
    #[reduce(append)]
    lines: Vec<String>,
}

/// Lets a node with the topic `slow` pass when the test adds a permit.
#[derive(Clone)]
pub(super) struct Gate(pub(super) Arc<Semaphore>);

async fn write(talk: &Talk, cx: &Context<Gate>) -> TalkUpdate {
    cx.emit(json!({ "writing": talk.topic })).await;
    for piece in ["On ", talk.topic.as_str()] {
        cx.message(json!({ "type": "AIMessageChunk", "id": "m", "content": piece })).await;
    }
    if talk.topic == "slow" {
        cx.deps().0.acquire().await.expect("the semaphore is never closed").forget();
    }
    Talk::update().lines([format!("On {}", talk.topic)])
}

async fn review(talk: &Talk, cx: &Context<Gate>) -> Result<TalkUpdate, NodeError> {
    if talk.topic == "broken" {
        return Err(NodeError::terminal(NamedError::new("ValueError", "boom")));
    }
    if talk.topic == "late" {
        graph_cluster::sleep(cx, Duration::from_secs(3600)).await?;
    }
    Ok(Talk::update().lines([cx.interrupt::<String>(format!("publish {}?", talk.topic))?]))
}

pub(super) fn graph() -> StateGraph<Talk, Gate> {
    let graph = StateGraph::<Talk, Gate>::new().node(write).node(review);
    graph.edge(START, write).edge(write, review)
}

/// A worker in this process.
pub(super) struct Cluster {
    pub(super) url: String,
    pub(super) client: Client,
    pub(super) gate: Gate,
    /// Trace contexts of the legs that the worker has started.
    pub(super) trace_parents: Arc<Mutex<Vec<String>>>,
    _stop: oneshot::Sender<()>,
}

impl Cluster {
    /// Returns `None` if PostgreSQL is not installed.
    pub(super) async fn start() -> Option<Self> {
        let url = postgres::fresh_database()?;
        let saver = PostgresSaver::connect(&url).await.expect("the database was just created");
        let graph: CompiledGraph<_, _> =
            graph().checkpointer(saver).compile().expect("the graph is valid");
        let store = RunStore::connect(&url).await.expect("the database was just created");
        let gate = Gate(Arc::new(Semaphore::new(0)));
        let deps = {
            let gate = gate.clone();
            move |_| std::future::ready(Ok(gate.clone()))
        };
        let trace_parents = Arc::<Mutex<Vec<String>>>::default();
        let worker = Worker::new(store.clone())
            .lease(LONG_LEASE)
            .trace_parent({
                let parents = trace_parents.clone();
                move |_: &_, parent: &str| {
                    parents.lock().expect("the lock is not poisoned").push(parent.to_owned());
                }
            })
            .register(RegisteredGraph::with_context("talk", graph, deps));
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(worker.serve(PostgresQueue::new(), async { drop(stopped.await) }));
        let client = Client::new(store, PostgresQueue::new());
        Some(Self { url, client, gate, trace_parents, _stop: stop })
    }
}
