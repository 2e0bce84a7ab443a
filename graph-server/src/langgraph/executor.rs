//! The interface to processes that execute runs in place of the server.

use std::{collections::BTreeMap, fmt};

use async_trait::async_trait;
use graph_core::{Durability, Event, Interrupt, Stops, checkpoint::CheckpointId};
use serde_json::{Map, Value};

use super::error::{ApiError, NamedError};

/// Executes the runs of a graph in other processes, such as the workers of a cluster: see
/// [`Graphs::execute_with`](super::Graphs::execute_with).
///
/// The other processes must have the same graph, with a checkpointer that they share with the server: the server reads
/// and edits the threads itself.
#[async_trait]
pub trait RunExecutor: fmt::Debug + Send + Sync {
    /// Returns whether a run was started. A restarted server therefore does not start its active runs again.
    async fn has_started(&self, run: &str) -> Result<bool, ExecutorError>;

    /// Starts a run.
    async fn start(&self, run: &ExecutorRun) -> Result<(), ExecutorError>;

    /// Passes the events of a run to `publish`, and returns when the run has ended. Waits while the executor is
    /// unavailable.
    ///
    /// The server drops the future if the run is cancelled, or if the server shuts down. In the second case it calls
    /// the method again after its restart, or another replica does. All events of the run must then be passed again, in
    /// the same order and with the same [`seq`](Event::seq), which identifies them.
    async fn watch(
        &self,
        run: &str,
        publish: &mut (dyn FnMut(Event) + Send),
    ) -> Result<ExecutorOutcome, ExecutorError>;

    /// Cancels a run, and returns when it is no longer executing. Does nothing if the run was never started or has
    /// ended.
    async fn cancel(&self, run: &str) -> Result<(), ExecutorError>;

    /// Deletes all runs of a thread with their events. None of them is active. The server deletes the checkpoints.
    async fn delete_thread(&self, thread: &str) -> Result<(), ExecutorError>;

    /// Returns whether the executor answers an interrupt itself, for example at the end of a timer. The states of
    /// threads that the server returns do not contain such interrupts.
    fn answers_interrupt(&self, _interrupt: &Interrupt) -> bool {
        false
    }
}

/// A run that an executor starts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExecutorRun {
    /// Id of the run.
    pub id: String,
    /// Name of the graph.
    pub graph: String,
    /// Name of the thread.
    pub thread: String,
    /// Owner of the run, if the server identifies its clients.
    pub owner: Option<String>,
    /// Trace context of the request that created the run, in the format of the HTTP header `traceparent`.
    pub trace_parent: Option<String>,
    /// Checkpoint from which the run starts. `None` selects the newest.
    pub checkpoint: Option<CheckpointId>,
    /// Input of the run.
    pub input: ExecutorInput,
    /// Data for the dependencies of the nodes.
    pub context: Map<String, Value>,
    /// Configuration values, which nodes read with [`Context::config`](graph_core::Context::config).
    pub config: Map<String, Value>,
    /// Metadata of the run's checkpoints.
    pub metadata: Map<String, Value>,
    /// Maximum number of steps.
    pub step_limit: Option<u32>,
    /// Maximum number of tasks that run concurrently within a step.
    pub max_concurrency: Option<usize>,
    /// When checkpoints are stored.
    pub durability: Durability,
    /// Nodes before which the run stops.
    pub stop_before: Option<Stops>,
    /// Nodes after which the run stops.
    pub stop_after: Option<Stops>,
}

/// Input of a run that an executor starts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ExecutorInput {
    /// Fields of the state that the run sets before it starts at START.
    Fields(Map<String, Value>),
    /// The thread continues from its checkpoint.
    Continue,
    /// A command. At least one of its parts is not empty.
    Command {
        /// Answer to the only pending interrupt. A thread without a pending interrupt ignores it.
        answer: Option<Value>,
        /// Answers to pending interrupts, by interrupt id.
        answers: BTreeMap<String, Value>,
        /// Fields of the state to set.
        update: Map<String, Value>,
        /// Nodes to run, with their payloads.
        targets: Vec<(String, Option<Value>)>,
    },
}

/// Outcome of a run that has not failed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecutorOutcome {
    /// Fields of the thread's state.
    pub values: Map<String, Value>,
    /// Interrupts that wait for an answer.
    pub interrupts: Vec<Interrupt>,
}

/// The reason why a run has no outcome, or why an operation failed.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutorError {
    /// The executor is temporarily unavailable. The server retries the start or the cancellation of the run later.
    #[error("the executor is unavailable: {0}")]
    Unavailable(String),
    /// The run was cancelled, but not by the server.
    #[error("the run was cancelled")]
    Cancelled,
    /// A step of the run exceeded its timeout.
    #[error("{0}")]
    TimedOut(NamedError),
    /// The run or the operation failed.
    #[error("{0}")]
    Failed(NamedError),
}

graph_core::readable_debug!(ExecutorError);

impl From<ExecutorError> for ApiError {
    fn from(error: ExecutorError) -> Self {
        Self::internal(&error)
    }
}
