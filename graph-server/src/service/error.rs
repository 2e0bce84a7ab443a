//! Errors of a service.

use std::io;

use crate::{registry::RegistryError, run::Status};

/// The error returned when an operation on a [`Service`](crate::Service) fails.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The run does not exist.
    #[error("run `{0}` does not exist")]
    UnknownRun(String),
    /// The requested run id is invalid or already in use.
    #[error(
        "run id `{0}` is invalid or already in use; choose another id of 1 to 100 letters, digits, `-`, `_` and `.`"
    )]
    InvalidId(String),
    /// The run is queued or executing.
    #[error("run `{0}` is already active; wait for it or cancel it")]
    AlreadyActive(String),
    /// The run is complete, so there is nothing to resume.
    #[error("run `{0}` is complete and cannot be resumed; start a new run or fork it")]
    Complete(String),
    /// The run cannot be cancelled, because it is neither active nor waiting for an answer.
    #[error("run `{id}` is {} and cannot be cancelled", status.name())]
    NotActive {
        /// Id of the run.
        id: String,
        /// Current status of the run.
        status: Status,
    },
    /// The queue is full. The value is the number of waiting runs.
    #[error("the queue is full (waiting runs: {0}); try again later")]
    QueueFull(usize),
    /// The server is shutting down.
    #[error("the server is shutting down; try again when it is back")]
    ShuttingDown,
    /// The registry could not be read or written.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The events of a run could not be read.
    #[error("cannot read the events of run `{id}`: {source}")]
    Events {
        /// Id of the run.
        id: String,
        /// The cause.
        source: io::Error,
    },
    /// A blocking task panicked.
    #[error("an internal task failed: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

graph_core::readable_debug!(ServiceError);
