//! Errors of a cluster.

use crate::run_status::RunStatus;

/// An operation on a cluster that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The run does not exist.
    #[error("run `{0}` does not exist")]
    UnknownRun(String),
    /// The id of a run, the name of a thread or the name of a graph is invalid.
    #[error("{what} `{value}` is invalid: it must have 1 to {max} bytes and no control characters")]
    InvalidName {
        /// Kind of the name.
        what: &'static str,
        /// The name, shortened.
        value: String,
        /// Maximum length in bytes.
        max: usize,
    },
    /// The run id belongs to a run with another request.
    #[error(
        "run id `{0}` is already used by a run with another request; use a new id for a new run"
    )]
    IdReused(String),
    /// The run cannot be resumed in its present status.
    #[error(
        "run `{run}` is {status} and cannot be resumed; only interrupted, stopped and failed runs can"
    )]
    NotResumable {
        /// Id of the run.
        run: String,
        /// Status of the run.
        status: RunStatus,
    },
    /// An answer does not match a pending interrupt.
    #[error("cannot resume run `{run}`: {problem}")]
    InvalidAnswer {
        /// Id of the run.
        run: String,
        /// Description of the mismatch, and how to fix it.
        problem: String,
    },
    /// The run has ended, so it cannot be cancelled.
    #[error("run `{run}` is {status} and cannot be cancelled")]
    NotCancellable {
        /// Id of the run.
        run: String,
        /// Status of the run.
        status: RunStatus,
    },
    /// Two graphs were registered with the same name.
    #[error("graph `{0}` is registered twice; use another name")]
    DuplicateGraph(String),
    /// The database cannot be reached, or a statement failed.
    #[error("the cluster database failed: {0}")]
    Database(String),
    /// A stored value is invalid.
    #[error("run `{run}` is corrupt in the cluster database: {problem}")]
    Corrupt {
        /// Id of the run.
        run: String,
        /// Description of the invalid data.
        problem: String,
    },
    /// The scheduler did not accept a run.
    #[error("the scheduler {scheduler} failed: {problem}")]
    Scheduler {
        /// Name of the scheduler.
        scheduler: &'static str,
        /// Description of the failure, and how to fix it.
        problem: String,
    },
}

impl From<deadpool_postgres::PoolError> for ClusterError {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        match error {
            deadpool_postgres::PoolError::Backend(error) => error.into(),
            other => Self::Database(other.to_string()),
        }
    }
}

impl From<tokio_postgres::Error> for ClusterError {
    fn from(error: tokio_postgres::Error) -> Self {
        // The message of the error itself is only its kind, such as `db error`.
        let cause = std::error::Error::source(&error).map(|it| format!(": {it}"));
        Self::Database(format!("{error}{}", cause.unwrap_or_default()))
    }
}
