//! A task that runs in another process, as its runner sees it.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    checkpoint::{id::TaskId, record::GotoRecord},
    context::task::TaskContext,
    error::NodeError,
    interrupt::Interrupt,
    remote::{outcome::RemoteFailure, task_start::RemoteTaskStart},
    state::field::FieldWrite,
    stream::Event,
};

/// Runs single tasks of a run in other processes: see [`RunOptions::task_runner`](crate::RunOptions::task_runner).
///
/// The other process is trusted: it must have a copy of the same graph.
#[async_trait]
pub trait RemoteTaskRunner: Send + Sync + fmt::Debug {
    /// Returns whether a task runs in another process.
    fn accepts(&self, task: TaskPlacement<'_>) -> bool;

    /// Runs a task to its end.
    ///
    /// The future is dropped if the run is cancelled. An error means that the task could not be run; it counts as a
    /// failure of the node.
    async fn run(&self, call: RemoteTaskCall) -> Result<RemoteTaskOutcome, NodeError>;
}

/// The properties of a task that determine where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskPlacement<'a> {
    /// Name of the node.
    pub node: &'a str,
    /// The pool that the node is bound to: see [`NodeExt::pool`](crate::NodeExt::pool).
    pub pool: Option<&'a str>,
    /// Number of tasks in the step.
    pub tasks_in_step: usize,
}

/// A call of a task that runs in another process.
pub struct RemoteTaskCall {
    pub(crate) start: RemoteTaskStart,
    pub(crate) task: Arc<TaskContext>,
    pub(crate) pool: Option<String>,
}

impl RemoteTaskCall {
    /// Returns the data that the other process needs to start the task. If that process dies, the runner can send the
    /// data to another one, together with the effects that were recorded since.
    pub fn start(&self) -> &RemoteTaskStart {
        &self.start
    }

    /// Returns the id of the task, which is the same if another process continues the run after a crash.
    pub fn task(&self) -> TaskId {
        self.task.id()
    }

    /// Returns the number of the step. The steps before it are complete.
    pub fn step(&self) -> i64 {
        self.task.step.number
    }

    /// Returns the pool that the node is bound to.
    pub fn required_pool(&self) -> Option<&str> {
        self.pool.as_deref()
    }

    /// Sends an event of the task to the stream of the run. Waits if the stream's buffer is full.
    pub async fn forward(&self, event: Event) {
        if let Some(events) = &self.task.scope.events {
            events.forward(event).await;
        }
    }

    /// Stores the result of an external call of the task in the thread, so that the task does not repeat the call if it
    /// runs again.
    pub async fn record_effect(&self, key: String, result: Value) -> Result<(), NodeError> {
        self.task.journal(key, result).await
    }
}

impl fmt::Debug for RemoteTaskCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteTaskCall")
            .field("node", &self.task.node())
            .field("task", &self.task.id())
            .finish_non_exhaustive()
    }
}

/// How a task in another process ended. Only the engine interprets the content; a runner receives it with `serde`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RemoteTaskOutcome {
    pub(crate) end: RemoteTaskEnd,
    /// Whether an interrupt of the task took the run's single resume value.
    pub(crate) took_resume_value: bool,
    /// The resume values of the task. `None` if it has received none and recorded no effect.
    pub(crate) memory: Option<ResumeMemory>,
}

impl RemoteTaskOutcome {
    /// Creates the outcome of a task that could not be run.
    pub fn failed(error: impl Into<String>) -> Self {
        let failure = RemoteFailure::Node { error: error.into(), terminal: true };
        Self { end: RemoteTaskEnd::Failed(failure), took_resume_value: false, memory: None }
    }
}

/// How a task ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RemoteTaskEnd {
    Done {
        writes: Vec<FieldWrite>,
        gotos: Vec<GotoRecord>,
        /// Whether the node's branches have been called.
        routed: bool,
    },
    Interrupted(Vec<Interrupt>),
    Failed(RemoteFailure),
    /// The node sent a command to the parent of a graph that has none.
    ParentCommand,
    /// The process of the run must execute the task itself.
    NeedsHost,
}

/// The resume values that a task has received.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ResumeMemory {
    pub(crate) values: Vec<Value>,
    pub(crate) discarded: bool,
}
