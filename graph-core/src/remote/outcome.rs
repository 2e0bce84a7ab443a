//! How a subgraph in another process ended.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    checkpoint::record::GotoRecord,
    error::{Cause, NodeError, RunError, UnknownTargetError, WriteConflictError},
    interrupt::{Interrupt, StopReason},
    state::field::{FieldError, FieldWrite},
};

/// How a subgraph in another process ended. Only the engine interprets the content; a runner receives it with `serde`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RemoteOutcome {
    pub(super) end: RemoteEnd,
    /// Whether an interrupt of the subgraph took the run's single resume value.
    pub(super) took_resume_value: bool,
    /// The subgraphs that a time-travel run has entered.
    pub(super) visited: BTreeSet<String>,
}

impl RemoteOutcome {
    /// Returns whether the subgraph completed, with a result or with a command to its parent graph.
    pub fn is_done(&self) -> bool {
        matches!(self.end, RemoteEnd::Done { .. } | RemoteEnd::ParentCommand { .. })
    }

    /// Replaces each text of the failure, if the subgraph failed. A runner uses it to sanitise texts that come from a
    /// process that it does not trust.
    pub fn map_error_texts(&mut self, map: impl Fn(&str) -> String) {
        if let RemoteEnd::Failed(failure) = &mut self.end {
            failure.texts().into_iter().for_each(|it| *it = map(it));
        }
    }
}

/// How a subgraph ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RemoteEnd {
    Done { state: Map<String, Value>, has_output: bool },
    Interrupted(Vec<Interrupt>),
    Stopped(StopReason),
    ParentCommand { updates: Vec<Vec<FieldWrite>>, gotos: Vec<GotoRecord> },
    Failed(RemoteFailure),
}

/// The serialisable form of a [`RunError`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RemoteFailure {
    Node { error: String, terminal: bool },
    StepLimit { limit: u32 },
    StepTimeout { step: i64, limit: Duration },
    Conflict(WriteConflictError),
    UnknownTarget(UnknownTargetError),
    Field { path: String, problem: String },
    InvalidUpdate(String),
    Other(String),
}

impl From<RunError> for RemoteFailure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Node { error, terminal, .. } => {
                Self::Node { error: error.to_string(), terminal }
            }
            RunError::StepLimit { limit } => Self::StepLimit { limit },
            RunError::StepTimeout { step, limit } => Self::StepTimeout { step, limit },
            RunError::Conflict(conflict) => Self::Conflict(*conflict),
            RunError::UnknownTarget(target) => Self::UnknownTarget(*target),
            RunError::Field(FieldError { path, problem }) => Self::Field { path, problem },
            RunError::InvalidUpdate(problem) => Self::InvalidUpdate(problem),
            error => Self::Other(error.to_string()),
        }
    }
}

impl RemoteFailure {
    /// Returns the error of the node that runs the subgraph. It is the same as if the engine had run the subgraph,
    /// except that an error of a node in the subgraph has lost its type.
    pub(crate) fn into_node_error(self) -> NodeError {
        let error = match self {
            Self::Node { error, terminal } => {
                let source = Arc::new(RemoteError(error));
                return NodeError::from_cause(Cause::Failed { source, terminal });
            }
            Self::Other(error) => return NodeError::terminal(RemoteError(error)),
            Self::StepLimit { limit } => RunError::StepLimit { limit },
            Self::StepTimeout { step, limit } => RunError::StepTimeout { step, limit },
            Self::Conflict(conflict) => conflict.into(),
            Self::UnknownTarget(target) => target.into(),
            Self::Field { path, problem } => FieldError { path, problem }.into(),
            Self::InvalidUpdate(problem) => RunError::InvalidUpdate(problem),
        };
        NodeError::terminal(error)
    }

    fn texts(&mut self) -> Vec<&mut String> {
        match self {
            Self::Node { error, .. } | Self::InvalidUpdate(error) | Self::Other(error) => {
                vec![error]
            }
            Self::StepLimit { .. } | Self::StepTimeout { .. } => Vec::new(),
            Self::Conflict(WriteConflictError { field, first, second, .. }) => {
                vec![field, first, second]
            }
            Self::UnknownTarget(UnknownTargetError { from, to, graph, nodes }) => {
                [from, to, graph].into_iter().chain(nodes).collect()
            }
            Self::Field { path, problem } => vec![path, problem],
        }
    }
}

/// The error of a subgraph that failed in another process. It has the message of the original error.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RemoteError(pub String);

crate::readable_debug!(RemoteError);
