//! Gemini's `generateContent` API.

use serde_json::Value;

use self::decode::ChunkDecoder;
use super::{CallError, Codec, DecodedResponse, Framing, StreamDecoder, WireRequest, json_util};
use crate::Request;

mod decode;
mod encode;

/// Creates the codec of Gemini's `generateContent` API.
pub(crate) fn gemini() -> Box<dyn Codec> {
    Box::new(Gemini)
}

#[derive(Debug)]
struct Gemini;

impl Codec for Gemini {
    fn encode(
        &self,
        model: &str,
        request: &Request,
        stream: bool,
    ) -> Result<WireRequest, CallError> {
        let method = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
        // The names in Google's list of models have this prefix.
        let model = model.strip_prefix("models/").unwrap_or(model);
        let path = format!("/v1beta/models/{model}:{method}");
        let body = Value::Object(encode::body(model, request));
        Ok(WireRequest { path, headers: Vec::new(), body })
    }

    fn decode(&self, body: &[u8]) -> Result<DecodedResponse, CallError> {
        decode::body(&json_util::parse(body)?)
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn stream_decoder(&self) -> Box<dyn StreamDecoder> {
        Box::new(ChunkDecoder::default())
    }
}
