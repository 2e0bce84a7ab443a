//! OpenAI's responses: the newer protocol, in which a model gets its own thoughts back.

use serde_json::Value;

use self::decode::Events;
use super::{Answer, Codec, Fault, Framing, Reader, Wire, json};
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
    fn encode(&self, model: &str, request: &Request, stream: bool) -> Result<Wire, Fault> {
        let body = Value::Object(encode::body(model, request, stream)?);
        Ok(Wire { path: "/responses".to_owned(), headers: Vec::new(), body })
    }

    fn decode(&self, body: &[u8]) -> Result<Answer, Fault> {
        decode::whole(&json::parse(body)?)
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(Events::default())
    }
}
