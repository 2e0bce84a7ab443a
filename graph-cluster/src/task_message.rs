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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_of_older_workers_without_number_and_run_are_read() {
        let event = json!({
            "namespace": "", "step": 1, "task": null, "node": "write", "handled_task": null,
            "parent_task": null, "kind": { "custom": "x" },
        });
        let message: TaskMessage =
            serde_json::from_value(json!({ "event": event })).expect("the event is complete");
        assert!(matches!(message, TaskMessage::Event(event) if event.step == 1));
    }
}
