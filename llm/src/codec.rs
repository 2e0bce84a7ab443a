//! Codecs, which implement the wire formats of the providers.
//!
//! A codec converts a [`Request`] to the body of an HTTP request, and the bytes of a response to a [`DecodedResponse`].
//! It opens no connection, so it can be tested completely with recorded responses.
//!
//! A streamed response is read by a [`StreamReader`]: an [`EventFramer`] splits its bytes into events, and the
//! codec's [`StreamDecoder`] assembles the response from them.

use std::{fmt, time::Duration};

use serde_json::Value;

pub(crate) use self::{
    anthropic::anthropic,
    framer::EventFramer,
    gemini::gemini,
    ollama::ollama,
    openai_chat::{Quirks, openai_chat},
    openai_responses::openai_responses,
    stream_reader::StreamReader,
};
use crate::{Error, ErrorKind, Finish, Listener, ModelId, Money, Part, Request, Usage};

mod anthropic;
mod breakpoints;
mod builder;
mod call_error;
#[cfg(test)]
mod cassettes;
#[cfg(test)]
mod encode_tests;
mod family;
mod framer;
mod gemini;
mod json_util;
mod ollama;
mod openai_chat;
mod openai_responses;
#[cfg(test)]
mod sample_requests;
mod schema;
mod stream_reader;
mod tools;

/// The wire format that one or more providers use.
pub(crate) trait Codec: Send + Sync + fmt::Debug {
    /// Returns whether a model accepts a temperature, based on the model's name.
    fn supports_temperature(&self, model: &str) -> bool {
        family::supports_temperature(model)
    }

    /// Encodes a request for a model. If `stream` is true, the request asks for a streamed response.
    ///
    /// The caller has already removed the temperature from the request if the model rejects one.
    fn encode(
        &self,
        model: &str,
        request: &Request,
        stream: bool,
    ) -> Result<WireRequest, CallError>;

    /// Decodes a response that is not streamed.
    fn decode(&self, body: &[u8]) -> Result<DecodedResponse, CallError>;

    /// Decodes a response with an error status.
    ///
    /// One implementation suffices, because the errors of all providers are similar.
    fn decode_error(&self, status: u16, headers: &dyn Headers, body: &[u8]) -> CallError {
        call_error::from_http(status, headers, body)
    }

    /// Returns an error if the response shows that the server truncated the prompt.
    fn check_not_truncated(
        &self,
        _wire: &WireRequest,
        _answer: &DecodedResponse,
    ) -> Result<(), CallError> {
        Ok(())
    }

    /// Returns how a streamed response is split into events.
    fn framing(&self) -> Framing;

    /// Creates a decoder for one streamed response.
    fn stream_decoder(&self) -> Box<dyn StreamDecoder>;
}

/// Decodes a streamed response, event by event.
pub(crate) trait StreamDecoder: Send {
    /// Decodes an event and sends the pieces of the response that it contains to the listener.
    fn event(&mut self, event: &Event, listener: &mut Listener<'_>) -> Result<(), CallError>;

    /// Returns whether the response is complete. If it is, the rest of the stream need not be read.
    fn is_done(&self) -> bool;

    /// Returns the whole response, or an error if the stream ended before the response was complete.
    fn finish(self: Box<Self>) -> Result<DecodedResponse, CallError>;
}

/// An encoded request, without the base URL and the API key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WireRequest {
    /// Path and query to append to the provider's base URL. As in the providers' own clients, the base URL contains
    /// the API version for OpenAI and compatible servers (`https://api.openai.com/v1`), but not for the other
    /// providers (`https://api.anthropic.com`).
    pub(crate) path: String,
    /// Headers that the wire format requires.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Body of the request, as JSON.
    pub(crate) body: Value,
}

/// A response as decoded from the wire.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DecodedResponse {
    pub(crate) content: Vec<Part>,
    /// Name of the model, if the response states it.
    pub(crate) model: Option<String>,
    pub(crate) finish: Finish,
    /// Token counts, if the provider reports them.
    pub(crate) usage: Option<Usage>,
    /// Cost, if the provider reports it.
    pub(crate) cost: Option<Money>,
}

/// The error returned inside this crate when a call fails. It is converted to an [`Error`] once the model and the HTTP
/// status are known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CallError {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) request_id: Option<String>,
    pub(crate) should_retry: Option<bool>,
}

impl CallError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry_after: None,
            request_id: None,
            should_retry: None,
        }
    }

    /// Converts the error to an [`Error`] with the model and the HTTP status.
    pub(crate) fn into_error(self, model: ModelId, status: Option<u16>) -> Error {
        let Self { kind, message, retry_after, request_id, should_retry } = self;
        Error { kind, model, message, status, retry_after, request_id, should_retry }
    }
}

/// How a streamed response is split into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON value per line.
    Lines,
}

/// One event of a streamed response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Name of the event; empty if it has none.
    pub(crate) name: String,
    /// Payload of the event.
    pub(crate) data: String,
}

/// Access to the headers of a response.
pub(crate) trait Headers {
    /// Returns the value of a header. The name must be in lower case.
    fn get(&self, name: &str) -> Option<&str>;
}
