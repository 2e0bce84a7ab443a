//! The actions of a task's body or of its error handler.

use serde_json::Value;

use crate::trace::{EffectTrace, FailedAttempt};

/// The actions of a task's body or of its error handler.
#[derive(Clone, Debug, Default)]
pub(super) struct Activity {
    pub(super) retries: Vec<FailedAttempt>,
    pub(super) effects: Vec<EffectTrace>,
    pub(super) custom: Vec<Value>,
    pub(super) messages: Vec<Value>,
}

impl Activity {
    /// Moves the stream output of a failed attempt from the task to that attempt.
    pub(super) fn retry(&mut self, attempt: u32, error: &str) {
        self.retries.push(FailedAttempt {
            attempt,
            error: error.to_owned(),
            custom: std::mem::take(&mut self.custom),
            messages: std::mem::take(&mut self.messages),
        });
    }

    /// Adds an effect unless it is already present, because a node that is executed again receives the same
    /// results.
    pub(super) fn effect(&mut self, key: &str, result: &Value) {
        if !self.effects.iter().any(|it| it.key == key) {
            self.effects.push(EffectTrace { key: key.to_owned(), result: result.clone() });
        }
    }

    /// Sorts effects by key, because concurrent calls complete in an arbitrary order.
    pub(super) fn sorted(mut self) -> Self {
        self.effects.sort_by(|a, b| a.key.cmp(&b.key));
        self
    }
}
