//! A worker in this process, and the graph that it executes.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use graph_cluster::{Client, RegisteredGraph, Worker};
use graph_core::{CompiledGraph, Context, NodeError, START, State, StateGraph};
use graph_server::langgraph::NamedError;
use graph_store::PostgresSaver;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::{cluster::Cluster, local_worker::LocalWorker};

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

/// A cluster with a worker in this process.
pub(super) struct TalkCluster {
    pub(super) url: String,
    pub(super) client: Client,
    pub(super) gate: Gate,
    /// Trace contexts of the legs that the worker has started.
    pub(super) trace_parents: Arc<Mutex<Vec<String>>>,
    _worker: LocalWorker,
}

impl TalkCluster {
    pub(super) async fn start(cluster: &Cluster) -> Self {
        let url = cluster.database.clone();
        let saver = PostgresSaver::connect(&url).await.expect("the database is running");
        let graph: CompiledGraph<_, _> =
            graph().checkpointer(saver).compile().expect("the graph is valid");
        let gate = Gate(Arc::new(Semaphore::new(0)));
        let deps = {
            let gate = gate.clone();
            move |_| std::future::ready(Ok(gate.clone()))
        };
        let trace_parents = Arc::<Mutex<Vec<String>>>::default();
        let add_parent = {
            let parents = trace_parents.clone();
            move |_: &tracing::Span, parent: &str| {
                parents.lock().expect("the lock is not poisoned").push(parent.to_owned());
            }
        };
        let talk = RegisteredGraph::with_context("talk", graph, deps);
        let configure = |it: Worker| it.trace_parent(add_parent).register(talk);
        let worker = LocalWorker::start(cluster, "worker", configure).await;
        Self { url, client: cluster.client.clone(), gate, trace_parents, _worker: worker }
    }
}
