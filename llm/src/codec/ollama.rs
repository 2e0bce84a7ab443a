//! Ollama's chat API.

use serde_json::Value;

use self::decode::LineDecoder;
use super::{CallError, Codec, DecodedResponse, Framing, StreamDecoder, WireRequest, json_util};
use crate::Request;

mod decode;
mod encode;
mod truncation;

/// Creates the codec of Ollama's chat API.
pub(crate) fn ollama() -> Box<dyn Codec> {
    Box::new(Ollama)
}

#[derive(Debug)]
struct Ollama;

impl Codec for Ollama {
    fn supports_temperature(&self, _model: &str) -> bool {
        true
    }

    fn encode(
        &self,
        model: &str,
        request: &Request,
        stream: bool,
    ) -> Result<WireRequest, CallError> {
        let body = Value::Object(encode::body(model, request, stream)?);
        Ok(WireRequest { path: "/api/chat".to_owned(), headers: Vec::new(), body })
    }

    fn decode(&self, body: &[u8]) -> Result<DecodedResponse, CallError> {
        decode::body(&json_util::parse(body)?)
    }

    fn check_not_truncated(
        &self,
        wire: &WireRequest,
        answer: &DecodedResponse,
    ) -> Result<(), CallError> {
        answer.usage.as_ref().map_or(Ok(()), |it| truncation::check(&wire.body, it))
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn stream_decoder(&self) -> Box<dyn StreamDecoder> {
        Box::new(LineDecoder::default())
    }
}
