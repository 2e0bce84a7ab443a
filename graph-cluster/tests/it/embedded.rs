//! Runs on a worker in this process, with spread tasks and with nodes that panic or fail.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use graph_cluster::{RunCommand, RunInfo, RunStatus, StartRun, Worker};
use graph_core::{CompiledGraph, Context, EventKind, NodeError, START, State, StateGraph};
use graph_store::PostgresSaver;

use crate::{cluster::Cluster, local_worker::LocalWorker};

const EVENTS: usize = 100;

#[derive(State, Clone, Debug, Default)]
struct Reading {
    times: Vec<u64>,
}

/// Alternately sends events and reads the journaled clock.
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
    let spreading = |it: Worker| it.graph("reading", graph, deps).fan_out(1);
    let worker = LocalWorker::start(cluster, "worker", spreading).await;
    let request = StartRun::new("r", "reading", "t");
    cluster.client.start(&request).await.expect("the run starts");
    let ended = cluster.ended("r").await;
    worker.stop().await;
    ended
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

#[derive(State, Clone, Debug, Default)]
struct Approval {
    answer: String,
}

/// Whether the node has failed.
type HasFailed = Arc<AtomicBool>;

/// Fails when it is answered for the first time.
async fn approve(_: &Approval, cx: &Context<HasFailed>) -> Result<ApprovalUpdate, NodeError> {
    let answer: String = cx.interrupt("Go on?")?;
    match cx.deps().swap(true, Ordering::Relaxed) {
        false => Err(NodeError::terminal("no connection")),
        true => Ok(Approval::update().answer(answer)),
    }
}

pub(crate) async fn failed_run_with_a_command_is_resumed(cluster: &Cluster) {
    let saver = PostgresSaver::connect(&cluster.database).await.expect("the database is running");
    let graph = StateGraph::<Approval, HasFailed>::new().node(approve).edge(START, approve);
    let graph = graph.checkpointer(saver).compile().expect("the graph is valid");
    let has_failed = HasFailed::default();
    let deps = move || has_failed.clone();
    let worker =
        LocalWorker::start(cluster, "worker", |it| it.graph("approval", graph, deps)).await;
    let client = &cluster.client;
    let first = StartRun::new("first", "approval", "t");
    // Continues the thread, whose node asks again. The run is interrupted before it stores a checkpoint.
    let second = StartRun::new("second", "approval", "t").command(RunCommand::new());
    for request in [first, second] {
        client.start(&request).await.expect("the run starts");
        assert_eq!(cluster.ended(&request.id).await.status, RunStatus::Interrupted);
    }
    client.answer("second", "yes").await.expect("a person is asked");
    assert_eq!(cluster.ended("second").await.status, RunStatus::Failed);
    client.resume("second", []).await.expect("the run failed");
    let done = cluster.ended("second").await;
    assert_eq!(done.status, RunStatus::Done, "{done:?}");
    assert_eq!(done.outcome.values["answer"], "yes");
    worker.stop().await;
}
