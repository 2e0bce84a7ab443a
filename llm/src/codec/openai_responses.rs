//! OpenAI's responses: the newer protocol, in which a model gets its own thoughts back.

use serde_json::Value;

use self::decode::EventDecoder;
use super::{DecodedResponse, Codec, CallError, Framing, StreamDecoder, WireRequest, json_util};
use crate::Request;

mod decode;
mod encode;

/// The codec of OpenAI's responses.
pub(crate) fn openai_responses() -> Box<dyn Codec> {
    Box::new(OpenAiResponses)
}

#[derive(Debug)]
struct OpenAiResponses;

impl Codec for OpenAiResponses {
    fn encode(&self, model: &str, request: &Request, stream: bool) -> Result<WireRequest, CallError> {
        let body = Value::Object(encode::body(model, request, stream)?);
        Ok(WireRequest { path: "/responses".to_owned(), headers: Vec::new(), body })
    }

    fn decode(&self, body: &[u8]) -> Result<DecodedResponse, CallError> {
        decode::whole(&json_util::parse(body)?)
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn stream_decoder(&self) -> Box<dyn StreamDecoder> {
        Box::new(EventDecoder::default())
    }
}
