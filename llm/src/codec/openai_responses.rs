//! OpenAI's Responses API. Unlike chat completions, it lets a conversation include the model's earlier reasoning.

use serde_json::Value;

use self::decode::EventDecoder;
use super::{CallError, Codec, DecodedResponse, Framing, StreamDecoder, WireRequest, json_util};
use crate::Request;

mod decode;
mod encode;

/// Creates the codec of OpenAI's Responses API.
pub(crate) fn openai_responses() -> Box<dyn Codec> {
    Box::new(OpenAiResponses)
}

#[derive(Debug)]
struct OpenAiResponses;

impl Codec for OpenAiResponses {
    fn encode(
        &self,
        model: &str,
        request: &Request,
        stream: bool,
    ) -> Result<WireRequest, CallError> {
        let body = Value::Object(encode::body(model, request, stream)?);
        Ok(WireRequest { path: "/responses".to_owned(), headers: Vec::new(), body })
    }

    fn decode(&self, body: &[u8]) -> Result<DecodedResponse, CallError> {
        decode::body(&json_util::parse(body)?)
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn stream_decoder(&self) -> Box<dyn StreamDecoder> {
        Box::new(EventDecoder::default())
    }
}
