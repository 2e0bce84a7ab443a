//! The data model of traces.

use std::time::Duration;

use graph_core::FieldWrite;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The trace of a run.
///
/// ```
/// use graph_core::{RunOptions, START, State, StateGraph};
/// use graph_trace::{RunStatus, record};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Essay {
///     topic: String,
///     text: String,
/// }
///
/// async fn write(essay: &Essay) -> EssayUpdate {
///     Essay::update().text(format!("On {}", essay.topic))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
/// let essay = Essay { topic: "tea".into(), ..Essay::default() };
/// let trace = record(&graph, essay, (), RunOptions::new()).await.trace;
/// assert_eq!(trace.end, RunStatus::Done);
/// let task = &trace.root.steps[1].tasks[0];
/// assert_eq!((&*task.node, &task.writes[0].value), ("write", &"On tea".into()));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The graph and its input.
    pub header: Header,
    /// The supersteps of the root graph.
    #[serde(flatten)]
    pub root: GraphTrace,
    /// How the run ended.
    pub end: RunStatus,
}

/// The graph that ran, and its input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Hash of the graph's declaration.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub graph: String,
    /// Version of the engine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub engine: String,
    /// The input of the run.
    pub input: Value,
    /// Inputs of later runs of the thread, in order. These are usually answers to interrupts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub later_inputs: Vec<Value>,
}

/// One execution of a graph, which is either the root or a graph that a task ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphTrace {
    /// Supersteps of the graph, in order.
    pub steps: Vec<StepTrace>,
}

/// One superstep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepTrace {
    /// Number of the step.
    pub step: i64,
    /// Tasks of the step in task order: first the tasks that edges triggered, sorted by node, and then the tasks
    /// with sent payloads, in the order of sending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskTrace>,
    /// The state after the step, if the step changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Value>,
}

/// The trace of one task.
///
/// Comparing two task traces for equality ignores the timing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TaskTrace {
    /// Name of the task's node.
    pub node: String,
    /// Input of the task.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Failed attempts before the last one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retries: Vec<FailedAttempt>,
    /// External calls of the task, sorted by key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<EffectTrace>,
    /// Values that the last attempt wrote to the custom stream, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub custom: Vec<Value>,
    /// Values that the last attempt wrote to the message stream, in order. Successive pieces of one text are one value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Value>,
    /// Graphs that the last attempt ran, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub graphs: Vec<GraphTrace>,
    /// Error of the task after its last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether the task's error handler took over. If it did, the fields below belong to the handler.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub handled: bool,
    /// Whether the task was not executed because its result came from the cache or from a run that is not part of
    /// the trace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
    /// Values of the task's interrupts, including interrupts that have been answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<Value>,
    /// Writes of the task, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<FieldWrite>,
    /// Targets of the task's routes and commands, in addition to the edges of its node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<String>,
    /// Payloads that the task sent, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sends: Vec<SendTrace>,
    /// When the task ran. The timing differs from run to run, so it is neither compared nor part of snapshots.
    #[serde(skip)]
    pub timing: Option<Timing>,
}

impl PartialEq for TaskTrace {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            node,
            input,
            retries,
            effects,
            custom,
            messages,
            graphs,
            error,
            handled,
            cached,
            interrupts,
            writes,
            routes,
            sends,
            timing: _,
        } = self;
        (node, input, retries, effects)
            == (&other.node, &other.input, &other.retries, &other.effects)
            && (custom, messages, graphs) == (&other.custom, &other.messages, &other.graphs)
            && (error, handled, cached) == (&other.error, &other.handled, &other.cached)
            && (interrupts, writes) == (&other.interrupts, &other.writes)
            && (routes, sends) == (&other.routes, &other.sends)
    }
}

/// A failed attempt of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FailedAttempt {
    /// Number of the attempt, starting at 1.
    pub attempt: u32,
    /// Error of the attempt.
    pub error: String,
    /// Values that the attempt wrote to the custom stream, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub custom: Vec<Value>,
    /// Values that the attempt wrote to the message stream, in order. Successive pieces of one text are one value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Value>,
}

/// An external call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EffectTrace {
    /// Full key of the call: its name, followed by the key that the caller passed.
    pub key: String,
    /// Result of the call.
    pub result: Value,
}

/// A payload that was sent to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendTrace {
    /// Name of the node.
    pub to: String,
    /// The sent value.
    pub payload: Value,
}

/// When a task ran, relative to the first event of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time at which the task started.
    pub start: Duration,
    /// Time at which the task ended.
    pub end: Duration,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunStatus {
    /// Nothing was left to run.
    Done,
    /// An interrupt is pending.
    Interrupted,
    /// The run stopped at a configured stop.
    Stopped,
    /// The run failed.
    Failed(String),
    /// The run was aborted because its future was dropped or its process died.
    Unfinished,
}
