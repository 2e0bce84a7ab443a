//! A worker that races another process for one thread. It is controlled by lines on standard input.
//!
//! A round has two phases. On `look`, the worker reads the thread's head and prints `ready`. On `go`, it tries to
//! add a checkpoint that follows this head, and prints the result. The modes that run a graph need no `look`.

use std::sync::Arc;

use checkpoint_testkit::sample::new_checkpoint;
use graph_core::{
    Checkpointer, CompiledGraph, Durability, RunError, RunOutcome, START, State, StateGraph, Stops,
    Thread,
    checkpoint::{Change, Checkpoint, CheckpointError, CheckpointId, Lookup},
};
use serde_json::json;

use super::repeated_start::{self, Orders};

/// Determines how a worker takes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaceMode {
    /// Leases the thread and adds a checkpoint.
    Leased,
    /// Adds a checkpoint without a lease, like a process that has lost its lease.
    Unleased,
    /// Runs a graph for one step.
    Graph,
    /// Starts a run whose id is the number of the round.
    RunId,
}

impl RaceMode {
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::Leased, Self::Unleased, Self::Graph, Self::RunId];
        all.into_iter().find(|it| it.as_str() == name)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Leased => "leased",
            Self::Unleased => "unleased",
            Self::Graph => "graph",
            Self::RunId => "run-id",
        }
    }
}

#[derive(State, Clone, Debug, Default)]
pub struct RaceState {
    #[reduce(add)]
    pub count: u64,
}

async fn step(_: &RaceState) -> RaceStateUpdate {
    RaceState::update().count(1)
}

/// Builds a graph that never completes. Each run on it stops after one step.
pub fn graph(saver: Arc<dyn Checkpointer>) -> CompiledGraph<RaceState> {
    StateGraph::<RaceState>::new()
        .node(step)
        .edge(START, step)
        .edge(step, step)
        .stop_after(Stops::All)
        .shared_checkpointer(saver)
        .compile()
        .expect("the graph is valid")
}

/// One of the two competing workers.
#[derive(Debug)]
pub struct RaceWorker {
    saver: Arc<dyn Checkpointer>,
    thread: String,
    mode: RaceMode,
    graph_thread: Thread<RaceState>,
    order_thread: Thread<Orders>,
    head: Option<Checkpoint>,
    round: u64,
}

impl RaceWorker {
    pub fn new(saver: Arc<dyn Checkpointer>, thread: &str, mode: RaceMode) -> Self {
        let graph_thread = graph(saver.clone()).thread(thread, ());
        let order_thread = repeated_start::thread(saver.clone(), thread);
        let thread = thread.to_owned();
        Self { saver, thread, mode, graph_thread, order_thread, head: None, round: 0 }
    }

    /// Handles a command and returns the line to print.
    pub async fn handle_command(&mut self, command: &str) -> String {
        match command {
            "look" => match self.saver.get(&Lookup::head(&self.thread, "")).await {
                Ok(head) => {
                    self.head = head;
                    "ready".to_owned()
                }
                Err(error) => format!("failed: {error}"),
            },
            "go" => {
                self.round += 1;
                self.go().await.unwrap_or_else(|error| refusal(&error))
            }
            other => format!("failed: unknown command `{other}`; expected `look` or `go`"),
        }
    }

    async fn go(&self) -> Result<String, RunError> {
        let count = match self.mode {
            RaceMode::Leased => {
                let lease = self.saver.lease(&self.thread).await?;
                let count = self.put().await?;
                drop(lease);
                count
            }
            RaceMode::Unleased => self.put().await?,
            RaceMode::Graph => match self.graph_thread.proceed().await? {
                RunOutcome::Stopped { state, .. } => state.count,
                exit => return Ok(format!("failed: {exit:?}")),
            },
            RaceMode::RunId => {
                let run_id = self.round.to_string();
                let started =
                    repeated_start::start(&self.order_thread, &run_id, Durability::default());
                let orders = started.await?;
                if orders != Orders::complete(orders.inputs) {
                    return Ok(format!("failed: {orders:?}"));
                }
                orders.inputs
            }
        };
        Ok(format!("won {count}"))
    }

    async fn put(&self) -> Result<u64, CheckpointError> {
        let head = self.head.as_ref();
        let count = 1 + head.and_then(|it| it.values.get("count")?.as_u64()).unwrap_or(0);
        let head_id = head.map(|it| it.key.id);
        let (id, run) = (CheckpointId::after(head_id), std::process::id().to_string());
        let changes = vec![("count".to_owned(), Change::Set(json!(count)))];
        let mut checkpoint = new_checkpoint(&self.thread, id, head_id, &run, changes);
        if let Some(Checkpoint { header, .. }) = head {
            checkpoint.header.origin = header.origin;
            checkpoint.header.step = header.step + 1;
        }
        self.saver.put(checkpoint).await?;
        Ok(count)
    }
}

/// Describes why a step was rejected. An error that is not a rejection is reported as a failure.
fn refusal(error: &RunError) -> String {
    match error {
        RunError::Checkpoint(CheckpointError::Busy { .. }) => "busy".to_owned(),
        RunError::Checkpoint(CheckpointError::HeadMoved { .. }) => "moved".to_owned(),
        RunError::Checkpoint(CheckpointError::LeaseLost { .. }) => "lost".to_owned(),
        error => format!("failed: {error}"),
    }
}
