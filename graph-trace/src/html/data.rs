//! The data that the page's script reads.
//!
//! A state is stored as the changes that each step made, so that a conversation with a thousand steps is not stored
//! a thousand times. The script restores the states; see `trace.js`.

use graph_core::{FieldWrite, draw::Drawing};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    executed_path,
    layout::{self, Picture},
};
use crate::trace::{
    EffectTrace, FailedAttempt, GraphTrace, RunStatus, SendTrace, StepTrace, TaskTrace, Trace,
};

/// Returns the data of the page for a trace.
pub(super) fn of<'a>(trace: &'a Trace, title: &'a str, drawing: &Drawing) -> PageData<'a> {
    PageData {
        title,
        graph: &trace.header.graph,
        engine: &trace.header.engine,
        input: &trace.header.input,
        later_inputs: &trace.header.later_inputs,
        end: &trace.end,
        steps: steps(&trace.root),
        picture: layout::picture(drawing, &executed_path::of(trace, drawing)),
    }
}

#[derive(Serialize)]
pub(super) struct PageData<'a> {
    title: &'a str,
    graph: &'a str,
    engine: &'a str,
    input: &'a Value,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    later_inputs: &'a [Value],
    end: &'a RunStatus,
    steps: Vec<StepData<'a>>,
    /// The picture of the graph, or `None` if the graph is too large to be drawn.
    picture: Option<Picture>,
}

#[derive(Serialize)]
struct StepData<'a> {
    step: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<TaskData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<Change<'a>>,
}

/// The changes that a step made to the state.
#[derive(Default, Serialize)]
struct Change<'a> {
    /// Fields with a new value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    set: Vec<(&'a str, &'a Value)>,
    /// Lists to which items were appended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    push: Vec<(&'a str, &'a [Value])>,
    /// Fields that were removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gone: Vec<&'a str>,
}

#[derive(Serialize)]
struct TaskData<'a> {
    node: &'a str,
    /// Start and end of the task, in microseconds since the first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<(u128, u128)>,
    /// The input of the task, if it differs from the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a Value>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    retries: &'a [FailedAttempt],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    effects: &'a [EffectTrace],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    custom: &'a [Value],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    messages: &'a [Value],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    graphs: Vec<Vec<StepData<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    handled: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cached: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    interrupts: &'a [Value],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    writes: &'a [FieldWrite],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    routes: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    sends: &'a [SendTrace],
}

fn steps(graph: &GraphTrace) -> Vec<StepData<'_>> {
    let mut before = None;
    let step = |step| step_data(step, &mut before);
    graph.steps.iter().map(step).collect()
}

fn step_data<'a>(step: &'a StepTrace, before: &mut Option<&'a Value>) -> StepData<'a> {
    let tasks = step.tasks.iter().map(|it| task_data(it, *before)).collect();
    let change = step.state.as_ref().map(|after| change(*before, after));
    *before = step.state.as_ref().or(*before);
    StepData { step: step.step, tasks, change }
}

fn task_data<'a>(task: &'a TaskTrace, state: Option<&Value>) -> TaskData<'a> {
    let is_state = state.is_some_and(|it| *it == task.input);
    TaskData {
        node: &task.node,
        at: task.timing.map(|it| (it.start.as_micros(), it.end.as_micros())),
        input: Some(&task.input).filter(|_| !is_state),
        retries: &task.retries,
        effects: &task.effects,
        custom: &task.custom,
        messages: &task.messages,
        graphs: task.graphs.iter().map(steps).collect(),
        error: task.error.as_deref(),
        handled: task.handled,
        cached: task.cached,
        interrupts: &task.interrupts,
        writes: &task.writes,
        routes: &task.routes,
        sends: &task.sends,
    }
}

fn change<'a>(before: Option<&'a Value>, after: &'a Value) -> Change<'a> {
    let before = before.and_then(Value::as_object);
    let Value::Object(after) = after else {
        // A state is always an object; any other value is shown as a field without a name.
        return Change { set: vec![("", after)], ..Change::default() };
    };
    let mut change = Change::default();
    for (field, value) in after {
        match (before.and_then(|it| it.get(field)), value) {
            (Some(old), new) if old == new => {}
            (Some(Value::Array(old)), Value::Array(new)) if new.starts_with(old) => {
                change.push.push((field, &new[old.len()..]));
            }
            _ => change.set.push((field, value)),
        }
    }
    let gone = before.into_iter().flat_map(Map::keys).filter(|it| !after.contains_key(*it));
    change.gone = gone.map(String::as_str).collect();
    change
}
