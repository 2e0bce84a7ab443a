//! Kinds of errors that make a run fail.

use graph_core::RunError;
use serde::{Deserialize, Serialize};

/// Kind of the error with which a run failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// A node failed.
    Node,
    /// A value does not fit the state, or several tasks of a step wrote a field that accepts only one write.
    InvalidUpdate,
    /// The run exceeded its step limit.
    StepLimit,
    /// A step exceeded its timeout.
    StepTimeout,
    /// The run has no input, and the thread has no checkpoint.
    EmptyInput,
    /// An answer does not belong to a pending interrupt.
    UnknownInterrupt,
    /// Several interrupts are pending, but the run has one answer without an interrupt id.
    AmbiguousResume,
    /// Another error.
    #[serde(other)]
    Other,
}

impl FailureKind {
    pub(crate) fn of(error: &RunError) -> Self {
        match error {
            RunError::Node { .. } => Self::Node,
            RunError::Conflict(_)
            | RunError::Field(_)
            | RunError::InvalidUpdate(_)
            | RunError::AmbiguousUpdate => Self::InvalidUpdate,
            RunError::StepLimit { .. } | RunError::ZeroStepLimit => Self::StepLimit,
            RunError::StepTimeout { .. } => Self::StepTimeout,
            RunError::EmptyInput => Self::EmptyInput,
            RunError::UnknownInterrupt { .. } => Self::UnknownInterrupt,
            RunError::AmbiguousResume { .. } => Self::AmbiguousResume,
            _ => Self::Other,
        }
    }
}
