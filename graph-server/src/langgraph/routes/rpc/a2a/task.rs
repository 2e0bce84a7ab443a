//! Tasks of A2A: runs in the form that A2A clients read.

use serde_json::{Value, json};
use uuid::Uuid;

use super::super::run::error_of;
use crate::langgraph::{
    error::ApiResult,
    manager::Manager,
    records::{Run, RunStatus},
    time::now,
};

/// A run as a task. Its context is the run's thread.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) run: Uuid,
    pub(super) thread: Uuid,
}

/// Outcome of a run, in the terms of A2A.
pub(super) struct Outcome {
    pub(super) state: &'static str,
    /// The answer, or the error. A cancelled run has neither.
    pub(super) text: Option<String>,
}

impl Outcome {
    /// Interprets the output of a run that has ended and was not cancelled.
    fn of(output: &Value) -> Self {
        let state = match error_of(output) {
            Some(_) => "failed",
            None if output.get("__interrupt__").is_some() => "input-required",
            None => "completed",
        };
        Self { state, text: Some(error_of(output).unwrap_or_else(|| answer(output))) }
    }
}

/// Returns the text of the last message, or the whole output if it has no messages.
pub(super) fn answer(output: &Value) -> String {
    match output["messages"].as_array().and_then(|it| it.last()) {
        Some(last) => text_of(last),
        None => output.to_string(),
    }
}

/// Returns the text of a message.
pub(super) fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|it| it["text"].as_str()).collect(),
        other => other.to_string(),
    }
}

impl Task {
    /// Returns the outcome of the task, which has ended with this output.
    pub(super) async fn outcome(&self, manager: &Manager, output: &Value) -> ApiResult<Outcome> {
        let run = manager.database.get::<Run>(&self.run.to_string()).await?;
        // A run that was cancelled with a rollback is deleted.
        let is_cancelled = run.is_none_or(|it| it.status == RunStatus::Interrupted);
        Ok(match is_cancelled {
            true => Outcome { state: "canceled", text: None },
            false => Outcome::of(output),
        })
    }

    /// Encodes the task. `text` is the answer, once it is known.
    pub(super) fn to_json(&self, state: &str, text: Option<&str>) -> Value {
        json!({
            "kind": "task",
            "id": self.run,
            "contextId": self.thread,
            "status": status(state),
            "artifacts": text.map(|it| self.artifact(it)).into_iter().collect::<Vec<_>>(),
        })
    }

    /// Encodes the event that the task changed its state. `text` is the answer so far.
    pub(super) fn status_update(&self, state: &str, text: Option<&str>, is_final: bool) -> Value {
        let mut status = status(state);
        if let Some(text) = text {
            status["message"] = json!({
                "kind": "message",
                "role": "agent",
                "messageId": self.run,
                "taskId": self.run,
                "contextId": self.thread,
                "parts": [{ "kind": "text", "text": text }],
            });
        }
        json!({
            "kind": "status-update",
            "taskId": self.run,
            "contextId": self.thread,
            "status": status,
            "final": is_final,
        })
    }

    /// Encodes the event that the answer is complete.
    pub(super) fn artifact_update(&self, text: &str) -> Value {
        json!({
            "kind": "artifact-update",
            "taskId": self.run,
            "contextId": self.thread,
            "artifact": self.artifact(text),
            "append": false,
            "lastChunk": true,
        })
    }

    fn artifact(&self, text: &str) -> Value {
        json!({
            "artifactId": self.run,
            "name": "answer",
            "parts": [{ "kind": "text", "text": text }],
        })
    }
}

fn status(state: &str) -> Value {
    json!({ "state": state, "timestamp": now() })
}
