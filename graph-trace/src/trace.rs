//! The data model of traces.

use std::time::Duration;

use graph_core::FieldWrite;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The trace of a run.
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

/// The graph that ran and its input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The hash of the graph's declaration.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub graph: String,
    /// The version of the engine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub engine: String,
    /// The input of the run.
    pub input: Value,
    /// The inputs of later runs of the thread, in order; usually answers to interrupts.
    #[serde(default, rename = "then", skip_serializing_if = "Vec::is_empty")]
    pub later_inputs: Vec<Value>,
}

/// One execution of a graph: the root, or a graph that a task ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphTrace {
    /// Its supersteps, in order.
    pub steps: Vec<StepTrace>,
}

/// One superstep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepTrace {
    /// Its number.
    pub step: i64,
    /// Its tasks in task order: tasks triggered by edges, sorted by node, then sent payloads in the order of
    /// sending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskTrace>,
    /// The state after the step, if the step changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Value>,
}

/// The trace of one task.
///
/// Equality ignores the timing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TaskTrace {
    /// Its node.
    pub node: String,
    /// Its input.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Failed attempts before the last one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retries: Vec<FailedAttempt>,
    /// Its external calls, sorted by key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<EffectTrace>,
    /// Values that its last attempt wrote to the custom stream, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub custom: Vec<Value>,
    /// Values that its last attempt wrote to the message stream, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Value>,
    /// The graphs that its last attempt ran, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub graphs: Vec<GraphTrace>,
    /// Its error, after all attempts were used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether its error handler took over; the fields below then belong to the handler.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub handled: bool,
    /// Whether the task was not executed, because its result came from the cache or from a run that is not part of
    /// the trace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
    /// The values of its interrupts, including those that have been answered.
    #[serde(default, rename = "questions", skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<Value>,
    /// Its writes, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<FieldWrite>,
    /// The targets of its routes and commands, in addition to its node's edges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<String>,
    /// The payloads it sent, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sends: Vec<SendTrace>,
    /// When it ran. Differs from run to run, and is therefore neither compared nor part of snapshots.
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

/// A failed attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FailedAttempt {
    /// The number of the attempt, starting at 1.
    pub attempt: u32,
    /// Its error.
    pub error: String,
    /// Values that it wrote to the custom stream, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub custom: Vec<Value>,
    /// Values that it wrote to the message stream, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Value>,
}

/// An external call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EffectTrace {
    /// Its name and key.
    pub key: String,
    /// Its result.
    pub result: Value,
}

/// A payload sent to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendTrace {
    /// The node.
    pub to: String,
    /// The payload.
    pub payload: Value,
}

/// When a task ran, relative to the first event of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// When it started.
    pub start: Duration,
    /// When it ended.
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
    #[serde(rename = "asked")]
    Interrupted,
    /// The run stopped at a configured stop.
    Stopped,
    /// The run failed.
    Failed(String),
    /// The run was aborted: its future was dropped, or its process died.
    Unfinished,
}
