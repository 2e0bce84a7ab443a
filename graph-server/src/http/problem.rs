//! Errors as clients see them.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};

use crate::service::ServiceError;

/// Why a request was not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    message: String,
    retry_after: Option<u64>,
}

/// An error's body.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProblemBody {
    /// What is wrong.
    pub error: ProblemDetail,
}

/// What is wrong with a request, or with the server.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProblemDetail {
    /// One word for programs.
    pub code: String,
    /// Words for people.
    pub message: String,
}

impl Problem {
    /// The request says something that cannot be.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", message)
    }

    /// There is no such thing.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// It cannot be done as things stand.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    /// The server is at fault. The words go to the log alone: they may name files and other things of the host.
    pub fn internal(cause: &(impl std::fmt::Display + ?Sized)) -> Self {
        tracing::error!(%cause, "a request failed");
        let message = "the server failed; its log says why";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    /// Too much at once; it may be tried again after so many seconds.
    pub fn too_many(message: impl Into<String>, retry_after: u64) -> Self {
        let status = StatusCode::TOO_MANY_REQUESTS;
        Self { retry_after: Some(retry_after), ..Self::new(status, "too_many", message) }
    }

    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after: None }
    }
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        let message = error.to_string();
        match error {
            ServiceError::Unknown(_) => Self::not_found(message),
            ServiceError::Id(_) => Self::invalid(message),
            ServiceError::Live(_) | ServiceError::Over(_) | ServiceError::NotLive { .. } => {
                Self::conflict(message)
            }
            ServiceError::Full(_) => Self::too_many(message, 30),
            ServiceError::Closing => Self {
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
        let detail = ProblemDetail { code: self.code.to_owned(), message: self.message };
        let mut response = (self.status, Json(ProblemBody { error: detail })).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
