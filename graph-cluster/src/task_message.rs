//! Messages of a task from the worker that executes it to the worker of its run.

use graph_core::Event;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A message of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskMessage {
    /// An event. The worker of the run replaces its number and its time.
    Event(Box<Event>),
    /// The result of an external call.
    Effect { key: String, result: Value },
}
