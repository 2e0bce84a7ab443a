//! Errors, in a form that is independent of the provider.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{ModelId, Usage};

/// The error returned when a call to a model fails.
#[derive(Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{model}: {kind}: {message}")]
pub struct Error {
    /// Category of the failure.
    pub kind: ErrorKind,
    /// The model that was called.
    pub model: ModelId,
    /// Details: the provider's message, or this crate's explanation and advice.
    pub message: String,
    /// Status of the HTTP response, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long to wait before the next call, if the provider specifies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// The provider's id of the request. The provider's support may ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Box<str>>,
    /// Whether a retry can succeed, if the provider states it. Overrides the default for `kind`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub should_retry: Option<bool>,
    /// Token counts that the provider reported before the call failed, such as those of a refusal. These tokens are
    /// billed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
}

crate::error_chain::readable_debug!(Error);

/// Category of a call failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The API key is missing, invalid, or lacks permission.
    Auth,
    /// The provider's rate limit is exceeded.
    RateLimited,
    /// The provider is overloaded or has an internal error.
    Overloaded,
    /// The account's credit or quota is used up. Waiting does not help.
    #[serde(rename = "spent")]
    QuotaExhausted,
    /// The request is longer than the model's context window.
    #[serde(rename = "too_long")]
    RequestTooLong,
    /// The provider or the model refuses to answer.
    Refused,
    /// The provider does not know the model or the URL.
    NotFound,
    /// The provider rejects the request as invalid.
    BadRequest,
    /// The response cannot be parsed.
    Malformed,
    /// The response ended before it was complete.
    #[serde(rename = "cut")]
    Truncated,
    /// The response is empty because the model used all its tokens for reasoning.
    #[serde(rename = "exhausted")]
    ReasoningOnly,
    /// The response exceeds the configured size limit.
    #[serde(rename = "too_large")]
    ResponseTooLarge,
    /// The connection could not be established; nothing was sent.
    Unreachable,
    /// The connection broke before a response arrived.
    Network,
    /// The call timed out.
    Timeout(Phase),
    /// The configured [`Budget`](crate::Budget) does not cover the call.
    Budget,
    /// The recording does not contain the call.
    NotRecorded,
    /// A file could not be read or written.
    File,
}

/// Phase in which a call timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Connecting, including the TLS handshake.
    Connect,
    /// Waiting for the first byte of the response.
    FirstByte,
    /// Waiting for the next bytes of the response.
    Idle,
    /// The whole call, from connecting to the end of the response.
    #[serde(rename = "whole")]
    Total,
}

impl Error {
    /// Creates an error with only a kind and a message.
    pub fn new(kind: ErrorKind, model: ModelId, message: impl Into<String>) -> Self {
        Self {
            kind,
            model,
            message: message.into(),
            status: None,
            retry_after: None,
            request_id: None,
            should_retry: None,
            usage: None,
        }
    }

    /// Returns whether the failed call cost nothing, because it was rejected before the provider started to answer.
    ///
    /// A call is not free if the provider reported its [usage](Self::usage) or if the error arrived in a response with
    /// a success status. Nor is it free if a recording or journal could not be written, because the call itself may
    /// have succeeded.
    pub fn is_free(&self) -> bool {
        let has_started = self.status.is_some_and(|it| (200..300).contains(&it));
        let is_rejection = matches!(
            self.kind,
            ErrorKind::Auth
                | ErrorKind::RateLimited
                | ErrorKind::Overloaded
                | ErrorKind::QuotaExhausted
                | ErrorKind::RequestTooLong
                | ErrorKind::NotFound
                | ErrorKind::BadRequest
                | ErrorKind::Unreachable
                | ErrorKind::Timeout(Phase::Connect)
                | ErrorKind::Budget
                | ErrorKind::NotRecorded
        );
        is_rejection && !has_started && self.usage.is_none()
    }

    /// Returns whether a retry may succeed. The provider's own statement takes precedence over the default for the
    /// error kind.
    pub fn is_retryable(&self) -> bool {
        self.should_retry.unwrap_or(match self.kind {
            ErrorKind::RateLimited
            | ErrorKind::Overloaded
            | ErrorKind::Malformed
            | ErrorKind::Truncated
            | ErrorKind::Unreachable
            | ErrorKind::Network
            | ErrorKind::Timeout(_) => true,
            ErrorKind::Auth
            | ErrorKind::QuotaExhausted
            | ErrorKind::RequestTooLong
            | ErrorKind::Refused
            | ErrorKind::NotFound
            | ErrorKind::BadRequest
            | ErrorKind::ReasoningOnly
            | ErrorKind::ResponseTooLarge
            | ErrorKind::Budget
            | ErrorKind::NotRecorded
            | ErrorKind::File => false,
        })
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let description = match self {
            Self::Auth => "the API key was rejected",
            Self::RateLimited => "rate limit exceeded",
            Self::Overloaded => "the provider is overloaded",
            Self::QuotaExhausted => "the account's credit or quota is used up",
            Self::RequestTooLong => "the request exceeds the model's context window",
            Self::Refused => "the provider refused to answer",
            Self::NotFound => "unknown model or URL",
            Self::BadRequest => "the provider rejected the request",
            Self::Malformed => "the response cannot be parsed",
            Self::Truncated => "the response was truncated",
            Self::ReasoningOnly => "all tokens were used for reasoning",
            Self::ResponseTooLarge => "the response is too large",
            Self::Unreachable => "cannot connect to the provider",
            Self::Network => "the connection broke",
            Self::Timeout(Phase::Connect) => "connecting timed out",
            Self::Timeout(Phase::FirstByte) => "no response within the time limit",
            Self::Timeout(Phase::Idle) => "the response stalled",
            Self::Timeout(Phase::Total) => "the call timed out",
            Self::Budget => "the budget does not cover the call",
            Self::NotRecorded => "the call is not in the recording",
            Self::File => "a file cannot be read or written",
        };
        f.write_str(description)
    }
}
