//! Parses recorded request bodies into [`Request`]s, which is the reverse of what the codecs do. Used only in tests.
//!
//! Fields that a [`Request`] does not support are removed from the recorded body. If the protocol allows two forms of
//! the same thing, the body is converted to the form that the codec writes.

use serde_json::Value;

use crate::{Request, codec::Protocol};

mod chat;
mod contents;
mod fields;
mod messages;
mod ollama;
mod responses;

/// A recorded request, parsed into a [`Request`].
pub(super) struct ParsedRequest {
    pub(super) model: String,
    pub(super) request: Request,
    pub(super) stream: bool,
}

/// Parses a recorded request body and removes unsupported fields from it.
pub(super) fn read(protocol: Protocol, path: &str, body: &mut Value) -> ParsedRequest {
    normalize_token_limit(body);
    let in_path = path.rsplit('/').next().unwrap_or_default().split_once(':').unwrap_or_default();
    let model = body["model"].as_str().unwrap_or(in_path.0).to_owned();
    let stream = body["stream"] == true || in_path.1 == "streamGenerateContent";
    let request = match protocol {
        Protocol::OpenAiChat(_) => chat::read(body),
        Protocol::OpenAiResponses => responses::read(body),
        Protocol::Anthropic => messages::read(body),
        Protocol::Gemini => contents::read(body),
        Protocol::Ollama => ollama::read(body),
    };
    ParsedRequest { model, request, stream }
}

/// Renames the token limit `max_completion_tokens` to its older name `max_tokens`.
pub(super) fn normalize_token_limit(body: &mut Value) {
    if let Some(limit) = fields::remove(body, "max_completion_tokens") {
        body["max_tokens"] = limit;
    }
}
