//! Messages of a task from the worker that executes it to the worker of its run.

use std::{sync::Arc, time::Instant};

use graph_core::{Event, EventKind, checkpoint::TaskId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A message of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskMessage {
    Event(Box<TaskEvent>),
    /// The result of an external call.
    Effect {
        key: String,
        result: Value,
    },
}

/// An event of a task, without the data that the worker of the run adds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TaskEvent {
    namespace: String,
    step: i64,
    task: Option<TaskId>,
    node: Option<String>,
    handled_task: Option<TaskId>,
    parent_task: Option<TaskId>,
    kind: EventKind,
}

impl From<Event> for TaskEvent {
    fn from(event: Event) -> Self {
        Self {
            namespace: event.namespace.to_string(),
            step: event.step,
            task: event.task,
            node: event.node.as_deref().map(str::to_owned),
            handled_task: event.handled_task,
            parent_task: event.parent_task,
            kind: event.kind,
        }
    }
}

impl From<TaskEvent> for Event {
    /// Returns the event with a number, a time and a run id that the engine replaces.
    fn from(event: TaskEvent) -> Self {
        Self {
            seq: 0,
            at: Instant::now(),
            run: Arc::from(""),
            namespace: Arc::from(event.namespace),
            step: event.step,
            task: event.task,
            node: event.node.map(Arc::from),
            handled_task: event.handled_task,
            parent_task: event.parent_task,
            kind: event.kind,
        }
    }
}
