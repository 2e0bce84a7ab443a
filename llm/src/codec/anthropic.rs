//! Anthropic's messages.

use serde_json::Value;

use self::decode::Blocks;
use super::{Answer, Codec, Fault, Framing, Reader, Wire, json};
use crate::Request;

mod decode;
mod encode;

/// The version of the protocol: the newer one takes a temperature for no model, the older models' neither.
const VERSION: &str = "2023-06-01";

/// The codec of Anthropic's messages.
pub(crate) fn anthropic() -> Box<dyn Codec> {
    Box::new(Anthropic)
}

#[derive(Debug)]
struct Anthropic;

impl Codec for Anthropic {
    fn encode(&self, model: &str, request: &Request, stream: bool) -> Result<Wire, Fault> {
        let body = Value::Object(encode::body(model, request, stream));
        let headers = vec![("anthropic-version", VERSION.to_owned())];
        Ok(Wire { path: "/v1/messages".to_owned(), headers, body })
    }

    fn decode(&self, body: &[u8]) -> Result<Answer, Fault> {
        decode::whole(&json::parse(body)?)
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(Blocks::default())
    }
}
