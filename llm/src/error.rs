//! Errors: one enum for what goes wrong at any provider.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::ModelId;

/// A call that did not come to an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{model}: {kind}: {message}")]
pub struct Error {
    /// What went wrong.
    pub kind: ErrorKind,
    /// The model that was asked.
    pub model: ModelId,
    /// The provider's own words, or ours: where it went wrong, and what to do.
    pub message: String,
    /// The status of the HTTP answer, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long the provider asks to be left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// The provider's own name of the call, for its support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Whether the provider says itself that another try helps, or does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub should_retry: Option<bool>,
}

/// What went wrong in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The key is missing, wrong, or not allowed to do this.
    Auth,
    /// Too many calls at the moment.
    RateLimited,
    /// The provider has too much to do, or a fault of its own.
    Overloaded,
    /// The account has no money or quota left: waiting does not help.
    Spent,
    /// The request is longer than the model can read.
    TooLong,
    /// The provider refuses to answer this.
    Refused,
    /// The provider does not know the model, or the address is wrong.
    NotFound,
    /// The provider does not take the request as it is.
    BadRequest,
    /// The answer cannot be read.
    Malformed,
    /// The answer's stream ended before the answer did.
    Cut,
    /// The answer is empty, because all its tokens went into reasoning.
    Exhausted,
    /// The answer is larger than allowed.
    TooLarge,
    /// No connection to the provider came about: nothing was sent.
    Unreachable,
    /// The connection broke before an answer came.
    Network,
    /// It took too long.
    Timeout(Phase),
    /// The run's own budget does not allow the call.
    Budget,
    /// The recording knows no such call.
    NotRecorded,
    /// A file could not be read or written.
    File,
}

/// Where in a call the time ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the connection stood.
    Connect,
    /// Before the first byte of the answer.
    FirstByte,
    /// Between two pieces of the answer.
    Idle,
    /// Over the whole call.
    Whole,
}

impl Error {
    /// An error with nothing but its kind and words.
    pub fn new(kind: ErrorKind, model: ModelId, message: impl Into<String>) -> Self {
        Self {
            kind,
            model,
            message: message.into(),
            status: None,
            retry_after: None,
            request_id: None,
            should_retry: None,
        }
    }

    /// Whether the same call may do better later.
    pub fn is_retryable(&self) -> bool {
        self.should_retry.unwrap_or(match self.kind {
            ErrorKind::RateLimited
            | ErrorKind::Overloaded
            | ErrorKind::Malformed
            | ErrorKind::Cut
            | ErrorKind::Unreachable
            | ErrorKind::Network
            | ErrorKind::Timeout(_) => true,
            ErrorKind::Auth
            | ErrorKind::Spent
            | ErrorKind::TooLong
            | ErrorKind::Refused
            | ErrorKind::NotFound
            | ErrorKind::BadRequest
            | ErrorKind::Exhausted
            | ErrorKind::TooLarge
            | ErrorKind::Budget
            | ErrorKind::NotRecorded
            | ErrorKind::File => false,
        })
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::Auth => "the key was not accepted",
            Self::RateLimited => "too many calls",
            Self::Overloaded => "the provider is overloaded",
            Self::Spent => "no money or quota left",
            Self::TooLong => "the request is longer than the model can read",
            Self::Refused => "the provider refuses to answer",
            Self::NotFound => "no such model or address",
            Self::BadRequest => "the provider does not take the request",
            Self::Malformed => "the answer cannot be read",
            Self::Cut => "the answer's stream ended early",
            Self::Exhausted => "all tokens went into reasoning",
            Self::TooLarge => "the answer is too large",
            Self::Unreachable => "the provider was not reached",
            Self::Network => "the connection broke",
            Self::Timeout(Phase::Connect) => "no connection in time",
            Self::Timeout(Phase::FirstByte) => "no answer in time",
            Self::Timeout(Phase::Idle) => "the answer stalled",
            Self::Timeout(Phase::Whole) => "the call took too long",
            Self::Budget => "the budget does not allow the call",
            Self::NotRecorded => "the recording has no such call",
            Self::File => "a file cannot be used",
        };
        f.write_str(words)
    }
}
