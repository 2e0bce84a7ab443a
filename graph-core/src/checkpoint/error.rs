//! Errors of checkpointers.

use std::{
    fmt::{self, Display},
    sync::Arc,
};

use crate::{
    checkpoint::{id::CheckpointId, stored::CheckpointKey},
    error_chain,
};

/// An error returned by a checkpointer.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Another run holds the lease on the thread.
    #[error(
        "thread `{thread}` is busy: another run holds its lease; wait for that run or cancel it"
    )]
    Busy {
        /// Name of the thread.
        thread: String,
    },
    /// Another run has added a checkpoint to the thread.
    #[error(
        "cannot write to thread `{thread}`: another run has added a checkpoint; reload the thread and try again"
    )]
    HeadMoved {
        /// Name of the thread.
        thread: String,
    },
    /// The lease expired and was taken by another run.
    #[error(
        "cannot write to thread `{thread}`: its lease expired and was taken by another run; reload the thread and try again"
    )]
    LeaseLost {
        /// Name of the thread.
        thread: String,
    },
    /// The checkpoint is older than the head, so it could never become the head.
    #[error(
        "checkpoint {id} is older than the newest checkpoint of thread `{thread}`; create its id with `CheckpointId::after`"
    )]
    NotNewer {
        /// Name of the thread.
        thread: String,
        /// Id of the checkpoint.
        id: CheckpointId,
    },
    /// The checkpoint does not exist.
    #[error("thread `{thread}` has no checkpoint {id} in namespace `{namespace}`")]
    UnknownCheckpoint {
        /// Name of the thread.
        thread: String,
        /// Namespace of the graph.
        namespace: String,
        /// Id of the checkpoint.
        id: CheckpointId,
    },
    /// The thread does not exist.
    #[error("thread `{thread}` does not exist")]
    UnknownThread {
        /// Name of the thread.
        thread: String,
    },
    /// The target of a copy already exists.
    #[error("thread `{thread}` already exists; delete it or choose another name")]
    ThreadExists {
        /// Name of the thread.
        thread: String,
    },
    /// The stored data is invalid.
    #[error("checkpoint {id} of thread `{thread}` is corrupt: {problem}")]
    Corrupt {
        /// Name of the thread.
        thread: String,
        /// Id of the checkpoint.
        id: CheckpointId,
        /// Description of the invalid data.
        problem: String,
    },
    /// The storage failed.
    #[error("the checkpoint storage failed: {0}")]
    Storage(Arc<dyn std::error::Error + Send + Sync>),
}

impl fmt::Debug for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = match self {
            // The message already contains the storage error, so the causes start at the source of that error.
            Self::Storage(error) => error.source(),
            error => std::error::Error::source(error),
        };
        error_chain::debug(f, self, cause)
    }
}

impl CheckpointError {
    /// Creates the error for a checkpoint whose data is invalid.
    pub(crate) fn corrupt(key: &CheckpointKey, problem: impl Display) -> Self {
        Self::Corrupt { thread: key.thread.clone(), id: key.id, problem: problem.to_string() }
    }

    /// Creates the error for a write that cannot be stored.
    pub(crate) fn storage(problem: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Storage(Arc::from(problem.into()))
    }
}
