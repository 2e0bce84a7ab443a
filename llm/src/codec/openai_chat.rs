//! OpenAI's chat completions, which most providers and servers speak, each with its own turns of phrase.

use serde_json::Value;

use self::decode::Chunks;
pub(crate) use self::quirks::Quirks;
use super::{Answer, Codec, Fault, Framing, Reader, Wire, json};
use crate::Request;

mod decode;
mod encode;
mod quirks;

/// The codec of chat completions, as this provider speaks it.
pub(crate) fn openai_chat(quirks: Quirks) -> Box<dyn Codec> {
    Box::new(OpenAiChat { quirks })
}

#[derive(Debug)]
struct OpenAiChat {
    quirks: Quirks,
}

impl Codec for OpenAiChat {
    fn takes_temperature(&self, model: &str) -> bool {
        self.quirks.takes_temperature(model)
    }

    fn encode(&self, model: &str, request: &Request, stream: bool) -> Result<Wire, Fault> {
        let body = Value::Object(encode::body(&self.quirks, model, request, stream)?);
        Ok(Wire { path: "/chat/completions".to_owned(), headers: Vec::new(), body })
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
