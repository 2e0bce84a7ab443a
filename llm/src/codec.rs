//! Codecs: how the providers write requests and answers.
//!
//! A codec is pure: it turns a [`Request`] into the body of an HTTP request, and bytes into an [`DecodedResponse`]. It
//! opens no connection, so recordings test all of it.
//!
//! A streamed answer goes through [`StreamReader`]: [`EventFramer`] cut its bytes into events, and the codec's
//! [`StreamDecoder`] puts the answer together from them.

use std::{fmt, time::Duration};

use serde_json::Value;

pub(crate) use self::{
    anthropic::anthropic,
    framer::EventFramer,
    gemini::gemini,
    stream_reader::StreamReader,
    ollama::ollama,
    openai_chat::{Quirks, openai_chat},
    openai_responses::openai_responses,
};
use crate::{Error, ErrorKind, Finish, Listener, ModelId, Money, Part, Request, Usage};

mod anthropic;
mod breakpoints;
#[cfg(test)]
mod cassettes;
mod builder;
#[cfg(test)]
mod encode_tests;
mod family;
mod call_error;
mod framer;
mod gemini;
mod stream_reader;
mod json_util;
mod ollama;
mod openai_chat;
mod openai_responses;
#[cfg(test)]
mod sample_requests;
mod schema;
mod tools;

/// How one family of providers writes requests and answers.
pub(crate) trait Codec: Send + Sync + fmt::Debug {
    /// Whether a model takes a temperature, as far as its name tells.
    fn supports_temperature(&self, model: &str) -> bool {
        family::supports_temperature(model)
    }

    /// Writes a request for a model; `stream` says whether the answer is to come in pieces.
    ///
    /// What the request says the model takes: a temperature that it does not is taken out before.
    fn encode(&self, model: &str, request: &Request, stream: bool) -> Result<WireRequest, CallError>;

    /// Reads a whole answer.
    fn decode(&self, body: &[u8]) -> Result<DecodedResponse, CallError>;

    /// Reads an answer with a status that is not a success.
    ///
    /// The providers' errors differ less than their answers, so that one reading serves them all.
    fn decode_error(&self, status: u16, headers: &dyn Headers, body: &[u8]) -> CallError {
        call_error::from_http(status, headers, body)
    }

    /// Fails where an answer shows that the model was not given the whole request.
    fn check_not_truncated(&self, _wire: &WireRequest, _answer: &DecodedResponse) -> Result<(), CallError> {
        Ok(())
    }

    /// How a streamed answer is cut into events.
    fn framing(&self) -> Framing;

    /// Reads one streamed answer.
    fn stream_decoder(&self) -> Box<dyn StreamDecoder>;
}

/// Reads one streamed answer, event by event.
pub(crate) trait StreamDecoder: Send {
    /// Reads an event, and tells its pieces.
    fn event(&mut self, event: &Event, listener: &mut Listener<'_>) -> Result<(), CallError>;

    /// Whether the answer came to its end, so that nothing more has to be read.
    fn is_done(&self) -> bool;

    /// The whole answer; a error where the stream ended before the answer did.
    fn finish(self: Box<Self>) -> Result<DecodedResponse, CallError>;
}

/// A request as it goes out, without address and key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WireRequest {
    /// The path and query after the provider's base address, which is what the provider's own clients take
    /// for it: with the version for OpenAI and those like it (`https://api.openai.com/v1`), without one for
    /// the others (`https://api.anthropic.com`).
    pub(crate) path: String,
    /// Headers that belong to the format.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// The body.
    pub(crate) body: Value,
}

/// An answer as it came in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DecodedResponse {
    pub(crate) content: Vec<Part>,
    /// The model as it calls itself, where it says so.
    pub(crate) model: Option<String>,
    pub(crate) finish: Finish,
    /// What was read and written, where the provider says so.
    pub(crate) usage: Option<Usage>,
    /// What it cost, where the provider says so.
    pub(crate) cost: Option<Money>,
}

/// An error before it is known which model it is of.
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

    /// Says which model it is of, and with which status it came.
    pub(crate) fn into_error(self, model: ModelId, status: Option<u16>) -> Error {
        let Self { kind, message, retry_after, request_id, should_retry } = self;
        Error { kind, model, message, status, retry_after, request_id, should_retry }
    }
}

/// How a streamed answer is cut into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON value a line.
    Lines,
}

/// One event of a streamed answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// The event's name; empty where it has none.
    pub(crate) name: String,
    /// Its data.
    pub(crate) data: String,
}

/// The headers of an answer, however they are kept.
pub(crate) trait Headers {
    /// The value of the header of this name, in small letters.
    fn get(&self, name: &str) -> Option<&str>;
}
