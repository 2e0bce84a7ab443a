//! The model: what a run did.

use std::time::Duration;

use graph_core::FieldWrite;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a run did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// What ran, on what.
    pub header: Header,
    /// What it did, step by step.
    #[serde(flatten)]
    pub root: GraphTrace,
    /// How it ended.
    pub end: End,
}

/// What ran, and on what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The hash of what the graph declares.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub graph: String,
    /// The version of the engine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub engine: String,
    /// What the run was given.
    pub input: Value,
    /// What later runs of the thread were given, in order: answers, mostly.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<Value>,
}

/// What one graph did in one visit: the root, or a graph that a task ran.
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
    /// Its tasks in task order: nodes led to by edges, by name, then payloads in the order sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskTrace>,
    /// The state after it, if it changed anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Value>,
}

/// What one task did.
///
/// Two are equal if they did the same, however long it took.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TaskTrace {
    /// Its node.
    pub node: String,
    /// What it ran on.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Its attempts that failed before the last one, each with what it said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retries: Vec<Retry>,
    /// Its outside calls, by key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<EffectTrace>,
    /// What its last attempt wrote to the custom stream, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub custom: Vec<Value>,
    /// What its last attempt wrote to the stream of messages, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Value>,
    /// The graphs that its last attempt ran, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub graphs: Vec<GraphTrace>,
    /// Its error, once its attempts were used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether its error handler took over: then what follows is the handler's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub handled: bool,
    /// Whether it was not run, since its result was known: from the cache, or from a run that is not part of the trace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
    /// What it asked, with what was answered by now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Value>,
    /// What it wrote, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<FieldWrite>,
    /// Where its routes and commands led, besides its node's edges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<String>,
    /// What it sent, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sends: Vec<SendTrace>,
    /// When it ran. Not the same in every run: it is not part of what is compared or snapshot.
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
            questions,
            writes,
            routes,
            sends,
            timing: _,
        } = self;
        (node, input, retries, effects)
            == (&other.node, &other.input, &other.retries, &other.effects)
            && (custom, messages, graphs) == (&other.custom, &other.messages, &other.graphs)
            && (error, handled, cached) == (&other.error, &other.handled, &other.cached)
            && (questions, writes) == (&other.questions, &other.writes)
            && (routes, sends) == (&other.routes, &other.sends)
    }
}

/// An attempt that failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// Which attempt: 1 for the first.
    pub attempt: u32,
    /// Its error.
    pub error: String,
    /// What it wrote to the custom stream, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub custom: Vec<Value>,
    /// What it wrote to the stream of messages, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Value>,
}

/// An outside call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EffectTrace {
    /// Its name and key.
    pub key: String,
    /// What it brought.
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

/// When a task ran, counted from the run's first event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// When it started.
    pub start: Duration,
    /// When it was over.
    pub end: Duration,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum End {
    /// Nothing was left to run.
    Done,
    /// It waits for answers.
    Asked,
    /// It stopped where it was told to.
    Stopped,
    /// It failed.
    Failed(String),
    /// It was given up before its end: its future was dropped, or its process died.
    Unfinished,
}
