//! Error responses of the API, and errors of runs.

use std::fmt;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use graph_core::{RunError, checkpoint::CheckpointError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::http::Problem;

pub(super) type ApiResult<T> = Result<T, ApiError>;

/// An error response: `{"detail": ".."}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApiError {
    status: StatusCode,
    detail: String,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }

    /// Creates the response for an invalid request (422).
    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    /// Creates the response for a valid request that does not fit the graph or the thread (400).
    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// Creates the response for an object that does not exist (404).
    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// Creates the response for an operation that the client may not perform (403).
    pub(super) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, detail)
    }

    /// Creates the response for an operation that conflicts with the state of its object (409).
    pub(super) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    /// Creates the response for a new object whose id belongs to an object that the client does not see (409).
    pub(super) fn id_in_use() -> Self {
        Self::conflict("the id is already in use; choose another one")
    }

    /// Returns whether this is a failure of the server.
    pub(super) fn is_internal(&self) -> bool {
        self.status.is_server_error()
    }

    /// Creates the response for a failure of the server (500). The cause is only logged, because it can contain the
    /// names of files and hosts.
    pub(super) fn internal(cause: &(impl fmt::Display + ?Sized)) -> Self {
        tracing::error!(%cause, "request failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal server error; see the server log")
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        let (status, detail) = problem.into_parts();
        Self { status, detail }
    }
}

impl From<RunError> for ApiError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Checkpoint(CheckpointError::Busy { .. }) => {
                Self::conflict("the thread is busy: a run is in progress; wait for it or cancel it")
            }
            RunError::Checkpoint(
                CheckpointError::UnknownCheckpoint { .. } | CheckpointError::UnknownThread { .. },
            )
            | RunError::UnknownSubgraph { .. } => Self::not_found(error.to_string()),
            RunError::Checkpoint(_) => Self::internal(&error),
            other => Self::bad_request(other.to_string()),
        }
    }
}

impl From<CheckpointError> for ApiError {
    fn from(error: CheckpointError) -> Self {
        RunError::from(error).into()
    }
}

impl From<rusqlite::Error> for ApiError {
    fn from(error: rusqlite::Error) -> Self {
        Self::internal(&error)
    }
}

#[cfg(feature = "postgres")]
impl From<deadpool_postgres::PoolError> for ApiError {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        match error {
            deadpool_postgres::PoolError::Backend(error) => error.into(),
            other => Self::internal(&other),
        }
    }
}

#[cfg(feature = "postgres")]
impl From<tokio_postgres::Error> for ApiError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(cause) => Self::internal(cause),
            None => Self::internal(&error),
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "detail": self.detail }))).into_response()
    }
}

/// Name of the error of a run that answers an interrupt which is not pending.
pub(super) const UNKNOWN_INTERRUPT: &str = "UnknownInterruptError";

/// An error with a type name, for nodes whose clients distinguish errors by name, as Python programs do.
///
/// ```
/// use graph_server::langgraph::NamedError;
///
/// let error = NamedError::new("ValueError", "boom");
/// assert_eq!(error.to_string(), "ValueError('boom')");
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedError {
    /// Name of the error's type.
    #[serde(rename = "error")]
    pub name: String,
    /// Description of the error.
    pub message: String,
}

impl NamedError {
    /// Creates an error.
    pub fn new(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { name: name.into(), message: message.into() }
    }

    /// Returns the name and message that clients receive for a failed run.
    pub(super) fn of_run(error: &RunError) -> Self {
        if let Some(named) = error.node_error::<Self>() {
            return named.clone();
        }
        let name = match error {
            RunError::Node { .. } => "NodeError",
            RunError::Conflict(_)
            | RunError::Field(_)
            | RunError::InvalidUpdate(_)
            | RunError::AmbiguousUpdate => "InvalidUpdateError",
            RunError::StepLimit { limit } => {
                let message = format!(
                    "recursion limit of {limit} steps reached without a final state; check the graph for an endless \
                     loop or raise `recursion_limit` in the configuration of the run"
                );
                return Self::new("GraphRecursionError", message);
            }
            RunError::ZeroStepLimit => "GraphRecursionError",
            RunError::StepTimeout { .. } => "TimeoutError",
            RunError::EmptyInput => "EmptyInputError",
            RunError::AmbiguousResume { .. } => "RuntimeError",
            RunError::UnknownInterrupt { .. } => UNKNOWN_INTERRUPT,
            RunError::Cancelled => "CancelledError",
            RunError::Checkpoint(CheckpointError::Storage(cause)) => {
                tracing::error!(%cause, "cannot read or write the thread of a run");
                return Self::new(
                    "StorageError",
                    "cannot read or write the thread of the run; see the server log",
                );
            }
            _ => "GraphError",
        };
        Self::new(name, error.to_string())
    }

    /// Restores an error from its text. Text in another format becomes the message of an error named `NodeError`.
    pub fn parse(text: &str) -> Self {
        let parts = text.strip_suffix("')").and_then(|it| it.split_once("('"));
        match parts {
            Some((name, message)) if name.chars().all(|it| it.is_ascii_alphanumeric()) => {
                Self::new(name, message)
            }
            _ => Self::new("NodeError", text),
        }
    }
}

impl fmt::Display for NamedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}('{}')", self.name, self.message)
    }
}

impl std::error::Error for NamedError {}

graph_core::readable_debug!(NamedError);
