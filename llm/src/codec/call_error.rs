//! The error of a failed call before the model and the HTTP status are known.

use std::time::Duration;

use crate::{Error, ErrorKind, ModelId, Usage};

/// The error returned inside this crate when a call fails. It is converted to an [`Error`] once the model and the HTTP
/// status are known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CallError {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) request_id: Option<String>,
    pub(crate) should_retry: Option<bool>,
    /// Token counts that the provider reported before the call failed.
    pub(crate) usage: Option<Usage>,
}

impl CallError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry_after: None,
            request_id: None,
            should_retry: None,
            usage: None,
        }
    }

    /// Adds these token counts if the error has none. Counts of zero mean that the provider reported none.
    pub(crate) fn or_usage(self, usage: Usage) -> Self {
        let usage = Some(usage).filter(|it| it.input > 0);
        Self { usage: self.usage.or(usage), ..self }
    }

    /// Converts the error to an [`Error`] with the model and the HTTP status.
    pub(crate) fn into_error(self, model: ModelId, status: Option<u16>) -> Error {
        let Self { kind, message, retry_after, request_id, should_retry, usage } = self;
        let request_id = request_id.map(String::into_boxed_str);
        let usage = usage.map(Box::new);
        Error { kind, model, message, status, retry_after, request_id, should_retry, usage }
    }
}
