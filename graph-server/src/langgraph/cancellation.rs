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

impl CancelAction {
    /// Returns the name of the action in requests and in the database.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt",
            Self::Rollback => "rollback",
        }
    }
}

/// A request to cancel a run.
#[derive(Debug, Clone)]
pub(super) struct Cancellation {
    pub(super) action: CancelAction,
    /// Reason for the cancellation. Clients see it.
    pub(super) reason: String,
}

impl Cancellation {
    pub(super) fn new(action: CancelAction, reason: impl Into<String>) -> Self {
        Self { action, reason: reason.into() }
    }

    /// Restores a cancellation from its stored action and reason.
    pub(super) fn from_stored(action: Option<&str>, reason: Option<String>) -> Option<Self> {
        let action = match action? {
            "rollback" => CancelAction::Rollback,
            _ => CancelAction::Interrupt,
        };
        Some(Self::new(action, reason.unwrap_or_default()))
    }

    /// Returns whether this request replaces an earlier one: the first request wins, except that a rollback overrides
    /// an interrupt.
    pub(super) fn overrides(&self, earlier: Option<&Self>) -> bool {
        earlier.is_none_or(|it| it.action < self.action)
    }
}
