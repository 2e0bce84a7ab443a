//! A new version of a graph that is deployed while a run executes.

use std::time::Duration;

use graph_cluster::{RegisteredGraph, RunStatus, StartRun};
use graph_core::{
    CompiledGraph, Context, END, EventKind, Route, START, State, StateGraph, StreamMode,
};
use graph_store::PostgresSaver;
use serde_json::{Value, json};
use test_support::DEADLINE;
use tokio::time::timeout;

use crate::{
    cluster::Cluster,
    local_worker::LocalWorker,
    versions::{Deps, saver, start},
};

const N_STEPS: usize = 4;

#[derive(State, Clone, Debug, Default)]
struct Steps {
    /// The version that has executed each step.
    #[reduce(append)]
    versions: Vec<String>,
}

/// In version 1, the second step ends when its worker drains.
async fn step(steps: &Steps, cx: &Context<Deps>) -> StepsUpdate {
    let version = *cx.deps();
    if version == "1" && steps.versions.len() == 1 {
        cx.emit("waiting").await;
        while !cx.drain_requested() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    Steps::update().versions([version.to_owned()])
}

#[derive(Route)]
enum Next {
    #[to(step)]
    Again,
    #[to(END)]
    Over,
}

fn next(steps: &Steps) -> Next {
    match steps.versions.len() < N_STEPS {
        true => Next::Again,
        false => Next::Over,
    }
}

fn graph(saver: PostgresSaver) -> CompiledGraph<Steps, Deps> {
    let graph = StateGraph::new().node(step).edge(START, step).branch(step, next);
    graph.checkpointer(saver).compile().expect("the graph is valid")
}

async fn registered(cluster: &Cluster, version: Deps) -> RegisteredGraph {
    let graph = graph(saver(cluster).await);
    RegisteredGraph::new("steps", graph, move || version).version(version)
}

/// Starts a run on a worker of version 1, and returns the worker while it executes the second step.
async fn start_on_old_version(cluster: &Cluster) -> LocalWorker {
    let old = start(cluster, "old", registered(cluster, "1").await).await;
    let request = StartRun::new("r", "steps", "t").stream_modes([StreamMode::Custom]);
    cluster.client.start(&request).await.expect("the run starts");
    let waiting = async {
        let mut events = cluster.client.events("r", 0);
        while let Some(event) = events.next().await.expect("the database is running") {
            if matches!(event.kind, EventKind::Custom(_)) {
                return;
            }
        }
        panic!("the run has ended");
    };
    timeout(DEADLINE, waiting).await.expect("the second step starts");
    old
}

/// Waits for the run, and returns its version and the versions of its steps.
async fn finish(cluster: &Cluster) -> (Option<String>, Value) {
    let run = cluster.ended("r").await;
    assert_eq!((run.status, run.claims), (RunStatus::Done, 2), "{run:?}");
    (run.version, run.outcome.values["versions"].clone())
}

pub(crate) async fn executing_run_moves_to_the_new_version(cluster: &Cluster) {
    let old = start_on_old_version(cluster).await;
    let continuing = registered(cluster, "2").await.continues("1");
    let new = start(cluster, "new", continuing).await;
    old.stop().await;
    let expected = (Some("2".to_owned()), json!(["1", "1", "2", "2"]));
    assert_eq!(finish(cluster).await, expected);
    new.stop().await;
}

pub(crate) async fn executing_run_stays_on_its_version(cluster: &Cluster) {
    let old = start_on_old_version(cluster).await;
    let new = start(cluster, "new", registered(cluster, "2").await).await;
    let other = start(cluster, "other", registered(cluster, "1").await).await;
    old.stop().await;
    let expected = (Some("1".to_owned()), json!(["1", "1", "1", "1"]));
    assert_eq!(finish(cluster).await, expected);
    tokio::join!(new.stop(), other.stop());
}
