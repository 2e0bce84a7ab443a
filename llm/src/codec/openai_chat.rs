//! OpenAI's chat completions API, which most other providers and servers also implement, with small differences.

use serde_json::Value;

use self::decode::ChunkDecoder;
pub(crate) use self::quirks::Quirks;
use super::{CallError, Codec, DecodedResponse, Framing, StreamDecoder, WireRequest, json_util};
use crate::Request;

mod decode;
mod encode;
mod quirks;

/// Creates the codec of the chat completions API for a provider with these quirks.
pub(crate) fn openai_chat(quirks: Quirks) -> Box<dyn Codec> {
    Box::new(OpenAiChat { quirks })
}

#[derive(Debug)]
struct OpenAiChat {
    quirks: Quirks,
}

impl Codec for OpenAiChat {
    fn supports_temperature(&self, model: &str) -> bool {
        self.quirks.supports_temperature(model)
    }

    fn encode(
        &self,
        model: &str,
        request: &Request,
        stream: bool,
    ) -> Result<WireRequest, CallError> {
        let body = Value::Object(encode::body(&self.quirks, model, request, stream)?);
        Ok(WireRequest { path: "/chat/completions".to_owned(), headers: Vec::new(), body })
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
