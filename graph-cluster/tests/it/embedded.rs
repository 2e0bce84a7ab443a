//! Runs on a worker in this process, with spread tasks and with nodes that panic or fail.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::SystemTime,
};

use graph_cluster::{PostgresQueue, RunCommand, RunInfo, RunStatus, RunStore, StartRun, Worker};
use graph_core::{CompiledGraph, Context, EventKind, NodeError, START, State, StateGraph};
use graph_store::PostgresSaver;
use test_support::DEADLINE;
use tokio::{sync::oneshot, time::timeout};

use crate::cluster::{Cluster, LONG_LEASE};

const EVENTS: usize = 100;

#[derive(State, Clone, Debug, Default)]
struct Reading {
    times: Vec<u64>,
}

/// Sends events and draws journaled times in turn.
async fn read_clock(_: &Reading, cx: &Context) -> Result<ReadingUpdate, NodeError> {
    let mut times = Vec::new();
    for number in 0..EVENTS {
        cx.emit(number).await;
        let now = cx.now().await?.duration_since(SystemTime::UNIX_EPOCH);
        times.push(now.map_err(NodeError::terminal)?.as_secs());
    }
    Ok(Reading::update().times(times))
}

async fn graph(cluster: &Cluster) -> CompiledGraph<Reading> {
    let saver = PostgresSaver::connect(&cluster.database).await.expect("the database is running");
    let graph = StateGraph::<Reading>::new().node(read_clock).edge(START, read_clock);
    graph.checkpointer(saver).compile().expect("the graph is valid")
}

/// Executes a run on a worker that spreads all tasks.
async fn run(cluster: &Cluster, deps: impl Fn() + Send + Sync + 'static) -> RunInfo {
    let graph = graph(cluster).await;
    let store = RunStore::connect(&cluster.database).await.expect("the database is running");
    let worker = Worker::new(store).lease(LONG_LEASE).graph("reading", graph, deps).fan_out(1);
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async { drop(stopped.await) };
    let serving = tokio::spawn(worker.serve(PostgresQueue::new(), shutdown));
    let request = StartRun::new("r", "reading", "t");
    cluster.client.start(&request).await.expect("the run starts");
    let ended = timeout(DEADLINE, cluster.client.wait("r")).await.expect("the run hangs");
    drop(stop);
    serving.await.expect("the worker does not panic").expect("the worker drains");
    ended.expect("the run exists")
}

pub(crate) async fn task_that_emits_and_journals_does_not_block(cluster: &Cluster) {
    let run = run(cluster, || ()).await;
    assert_eq!(run.status, RunStatus::Done, "{run:?}");
    let mut events = cluster.client.events("r", 0);
    let mut emitted = Vec::new();
    while let Some(event) = events.next().await.expect("the database is running") {
        if let EventKind::Custom(value) = event.kind {
            emitted.push(value);
        }
    }
    assert_eq!(emitted, (0..EVENTS).map(serde_json::Value::from).collect::<Vec<_>>());
}

pub(crate) async fn panic_outside_the_node_fails_the_run(cluster: &Cluster) {
    // The first call is for the leg, the second one for its task.
    let is_task = AtomicBool::new(false);
    let deps = move || assert!(!is_task.swap(true, Ordering::Relaxed), "no more connections");
    let run = run(cluster, deps).await;
    assert_eq!(run.status, RunStatus::Failed, "{run:?}");
    let error = run.outcome.error.unwrap_or_default();
    assert!(error.contains("panicked") && error.contains("no more connections"), "{error}");
}

static HAS_FAILED: AtomicBool = AtomicBool::new(false);

#[derive(State, Clone, Debug, Default)]
struct Approval {
    answer: String,
}

/// Fails when it is answered for the first time.
async fn approve(_: &Approval, cx: &Context) -> Result<ApprovalUpdate, NodeError> {
    let answer: String = cx.interrupt("Go on?")?;
    match HAS_FAILED.swap(true, Ordering::Relaxed) {
        false => Err(NodeError::terminal("no connection")),
        true => Ok(Approval::update().answer(answer)),
    }
}

pub(crate) async fn run_with_a_command_that_failed_is_resumed(cluster: &Cluster) {
    let saver = PostgresSaver::connect(&cluster.database).await.expect("the database is running");
    let graph = StateGraph::<Approval>::new().node(approve).edge(START, approve);
    let graph = graph.checkpointer(saver).compile().expect("the graph is valid");
    let store = RunStore::connect(&cluster.database).await.expect("the database is running");
    let worker = Worker::new(store).lease(LONG_LEASE).graph("approval", graph, || ());
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async { drop(stopped.await) };
    let serving = tokio::spawn(worker.serve(PostgresQueue::new(), shutdown));
    let client = &cluster.client;
    let wait = async |run: &str| {
        let ended = timeout(DEADLINE, client.wait(run)).await.expect("the run hangs");
        ended.expect("the run exists")
    };
    let first = StartRun::new("first", "approval", "t");
    // Asks again, without a checkpoint.
    let second = StartRun::new("second", "approval", "t").command(RunCommand::new());
    for request in [first, second] {
        client.start(&request).await.expect("the run starts");
        assert_eq!(wait(&request.id).await.status, RunStatus::Interrupted);
    }
    client.answer("second", "yes").await.expect("a person is asked");
    assert_eq!(wait("second").await.status, RunStatus::Failed);
    client.resume("second", []).await.expect("the run failed");
    let done = wait("second").await;
    assert_eq!(done.status, RunStatus::Done, "{done:?}");
    assert_eq!(done.outcome.values["answer"], "yes");
    drop(stop);
    serving.await.expect("the worker does not panic").expect("the worker drains");
}
