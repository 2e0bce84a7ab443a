//! Interface for executing the runs of a case without calling the engine directly.

use std::fmt;

use async_trait::async_trait;
use graph_core::{CompiledGraph, Event, JsonState, checkpoint::CheckpointId};
use serde_json::{Map, Value};

/// Executes runs of cases.
#[async_trait]
pub trait RunExecutor: fmt::Debug + Send + Sync {
    /// Executes a run to its end. Returns `None` if it cannot express the run; the engine then executes it.
    async fn execute(&self, run: CaseRun) -> Option<ExecutedRun>;

    /// Records why a run cannot be passed to [`execute`](Self::execute).
    fn skip(&self, reason: &'static str);
}

/// A run of a case.
#[derive(Debug)]
pub struct CaseRun {
    /// The graph with the options of the run.
    pub graph: CompiledGraph<JsonState>,
    /// Name of the thread.
    pub thread: String,
    /// Checkpoint from which the run starts. `None` selects the newest.
    pub checkpoint: Option<CheckpointId>,
    pub input: RunInput,
}

/// The input of a run.
#[derive(Debug)]
pub enum RunInput {
    /// Sets these fields.
    Fields(Map<String, Value>),
    /// Continues the thread.
    Continue,
    /// Answers the only pending interrupt.
    Answer(Value),
    /// Answers interrupts by id.
    Answers(Vec<(String, Value)>),
    /// Sets fields, runs nodes on the state, and answers the only pending interrupt.
    Command { update: Map<String, Value>, goto: Vec<String>, resume: Option<Value> },
}

/// A run that has ended.
#[derive(Debug)]
pub struct ExecutedRun {
    /// The events of the top-level graph, in order.
    pub events: Vec<Event>,
    /// Error that ended the run.
    pub error: Option<ExecutorError>,
}

/// An error with which an executor ended a run.
#[derive(Debug)]
pub struct ExecutorError {
    /// Code of the error in the format of the cases. `None` if the executor does not know it.
    pub code: Option<String>,
}
