//! Error responses.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};

use crate::service::ServiceError;

/// An error response.
///
/// ```
/// use axum::response::IntoResponse;
/// use graph_server::http::Problem;
///
/// /// A handler of an application's own route.
/// fn get_report(id: &str) -> Result<String, Problem> {
///     Err(Problem::not_found(format!("report `{id}` does not exist")))
/// }
///
/// let response = get_report("r9").unwrap_err().into_response();
/// assert_eq!(response.status(), 404);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    message: String,
    retry_after: Option<u64>,
}

/// Body of an error response.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProblemBody {
    /// Details of the error.
    pub error: ProblemDetail,
    /// The message again, in the field in which clients of LangGraph's API expect it.
    pub detail: String,
}

/// The details of an error that the request or the server caused.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProblemDetail {
    /// Machine-readable error code.
    pub code: String,
    /// Human-readable error message.
    pub message: String,
}

impl Problem {
    /// Creates the response for an invalid request (422).
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", message)
    }

    /// Creates the response for an object that does not exist (404).
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// Creates the response for an operation that the current state does not allow (409).
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    /// Creates the response for a failure of the server (500). The cause is only logged, because it can contain the
    /// names of files and hosts.
    pub fn internal(cause: &(impl std::fmt::Display + ?Sized)) -> Self {
        tracing::error!(%cause, "request failed");
        let message = "internal server error; see the server log";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    /// Creates the response for an exceeded limit (429). The client may retry after `retry_after` seconds.
    pub fn too_many(message: impl Into<String>, retry_after: u64) -> Self {
        let status = StatusCode::TOO_MANY_REQUESTS;
        Self { retry_after: Some(retry_after), ..Self::new(status, "too_many", message) }
    }

    /// Creates the response for a request that the server cannot answer now (503). The client may retry after
    /// `retry_after` seconds.
    pub(crate) fn unavailable(message: impl Into<String>, retry_after: u64) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self { retry_after: Some(retry_after), ..Self::new(status, "unavailable", message) }
    }

    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after: None }
    }

    /// Returns the status code and the message.
    pub(crate) fn into_parts(self) -> (StatusCode, String) {
        (self.status, self.message)
    }
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        let message = error.to_string();
        match error {
            ServiceError::UnknownRun(_) => Self::not_found(message),
            ServiceError::InvalidId(_) => Self::invalid(message),
            ServiceError::AlreadyActive(_)
            | ServiceError::Complete(_)
            | ServiceError::NotActive { .. } => Self::conflict(message),
            ServiceError::QueueFull(_) => Self::too_many(message, 30),
            ServiceError::ShuttingDown => Self {
                retry_after: Some(5),
                ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "closing", message)
            },
            ServiceError::Registry(_) | ServiceError::Events { .. } | ServiceError::Thread(_) => {
                Self::internal(&message)
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let error = ProblemDetail { code: self.code.to_owned(), message: self.message.clone() };
        let body = ProblemBody { error, detail: self.message };
        let mut response = (self.status, Json(body)).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
