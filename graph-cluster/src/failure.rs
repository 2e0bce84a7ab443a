//! Kinds of errors with which runs fail.

use graph_core::RunError;
use serde::{Deserialize, Serialize};

use crate::run::RunResult;

/// Kind of the error with which a run failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// A node failed.
    Node,
    /// A value does not fit the state, or tasks wrote a field that accepts one write per step.
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

impl RunResult {
    /// Creates the result of a run that failed.
    pub(crate) fn failed(error: &RunError) -> Self {
        let failure = match error {
            RunError::Node { .. } => FailureKind::Node,
            RunError::Conflict(_)
            | RunError::Field(_)
            | RunError::InvalidUpdate(_)
            | RunError::AmbiguousUpdate => FailureKind::InvalidUpdate,
            RunError::StepLimit { .. } | RunError::ZeroStepLimit => FailureKind::StepLimit,
            RunError::StepTimeout { .. } => FailureKind::StepTimeout,
            RunError::EmptyInput => FailureKind::EmptyInput,
            RunError::UnknownInterrupt { .. } => FailureKind::UnknownInterrupt,
            RunError::AmbiguousResume { .. } => FailureKind::AmbiguousResume,
            _ => FailureKind::Other,
        };
        let node_error = match error {
            RunError::Node { error, .. } => Some(error.to_string()),
            _ => None,
        };
        Self {
            error: Some(error.to_string()),
            failure: Some(failure),
            node_error,
            ..Self::default()
        }
    }
}
