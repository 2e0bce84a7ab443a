//! Gemini's contents.

use serde_json::Value;

use self::decode::Chunks;
use super::{Answer, Codec, Fault, Framing, Reader, Wire, json};
use crate::Request;

mod decode;
mod encode;

/// The codec of Gemini's contents.
pub(crate) fn gemini() -> Box<dyn Codec> {
    Box::new(Gemini)
}

#[derive(Debug)]
struct Gemini;

impl Codec for Gemini {
    fn encode(&self, model: &str, request: &Request, stream: bool) -> Result<Wire, Fault> {
        let method = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
        // Google's own list of models gives their names so.
        let model = model.strip_prefix("models/").unwrap_or(model);
        let path = format!("/v1beta/models/{model}:{method}");
        let body = Value::Object(encode::body(model, request));
        Ok(Wire { path, headers: Vec::new(), body })
    }

    fn decode(&self, body: &[u8]) -> Result<Answer, Fault> {
        decode::whole(&json::parse(body)?)
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(Chunks::default())
    }
}
