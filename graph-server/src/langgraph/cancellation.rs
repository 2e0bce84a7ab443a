//! Requests to cancel a run.

use serde::Deserialize;

/// Effect of a cancellation on the progress of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CancelAction {
    /// The checkpoints of the run are kept.
    #[default]
    Interrupt,
    /// The run and its checkpoints are deleted.
    Rollback,
}

/// A request to cancel a run.
#[derive(Debug, Clone)]
pub(super) struct Cancellation {
    pub(super) action: CancelAction,
    /// Reason for the cancellation, which clients see.
    pub(super) reason: String,
}

impl Cancellation {
    pub(super) fn new(action: CancelAction, reason: impl Into<String>) -> Self {
        Self { action, reason: reason.into() }
    }

    /// Adds a later request: the first one wins, except that a rollback overrides an interrupt.
    pub(super) fn add(requested: &mut Option<Self>, later: Self) {
        if requested.as_ref().is_none_or(|it| it.action < later.action) {
            *requested = Some(later);
        }
    }
}
