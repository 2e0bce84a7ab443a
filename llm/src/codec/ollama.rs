//! Ollama's chat.

use serde_json::Value;

use self::decode::Lines;
use super::{Answer, Codec, Fault, Framing, Reader, Wire, json};
use crate::Request;

mod decode;
mod encode;
mod heard;

/// The codec of Ollama's chat.
pub(crate) fn ollama() -> Box<dyn Codec> {
    Box::new(Ollama)
}

#[derive(Debug)]
struct Ollama;

impl Codec for Ollama {
    fn takes_temperature(&self, _model: &str) -> bool {
        true
    }

    fn encode(&self, model: &str, request: &Request, stream: bool) -> Result<Wire, Fault> {
        let body = Value::Object(encode::body(model, request, stream)?);
        Ok(Wire { path: "/api/chat".to_owned(), headers: Vec::new(), body })
    }

    fn decode(&self, body: &[u8]) -> Result<Answer, Fault> {
        decode::whole(&json::parse(body)?)
    }

    fn check_heard(&self, wire: &Wire, answer: &Answer) -> Result<(), Fault> {
        answer.usage.as_ref().map_or(Ok(()), |it| heard::check(&wire.body, it))
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(Lines::default())
    }
}
