//! Requests to cancel a run.

use serde::Deserialize;

/// Effect of a cancellation on the progress of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::langgraph) enum CancelAction {
    /// The checkpoints of the run are kept.
    #[default]
    Interrupt,
    /// The run and its checkpoints are deleted.
    Rollback,
}

/// A request to cancel a run.
#[derive(Debug, Clone)]
pub(in crate::langgraph) struct Cancellation {
    pub(in crate::langgraph) action: CancelAction,
    /// Reason for the cancellation, which clients see.
    pub(in crate::langgraph) reason: String,
}

impl Cancellation {
    pub(in crate::langgraph) fn new(action: CancelAction, reason: impl Into<String>) -> Self {
        Self { action, reason: reason.into() }
    }
}
