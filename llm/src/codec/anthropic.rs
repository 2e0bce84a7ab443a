//! Anthropic's Messages API.

use serde_json::Value;

use self::decode::BlockDecoder;
use super::{CallError, Codec, DecodedResponse, Framing, StreamDecoder, WireRequest, json_util};
use crate::Request;

mod decode;
mod encode;

/// Version of the protocol. A newer version exists, but it rejects a temperature even for older models.
const VERSION: &str = "2023-06-01";

/// Creates the codec of Anthropic's Messages API.
pub(crate) fn anthropic() -> Box<dyn Codec> {
    Box::new(Anthropic)
}

#[derive(Debug)]
struct Anthropic;

impl Codec for Anthropic {
    fn encode(
        &self,
        model: &str,
        request: &Request,
        stream: bool,
    ) -> Result<WireRequest, CallError> {
        let body = Value::Object(encode::body(model, request, stream));
        let headers = vec![("anthropic-version", VERSION.to_owned())];
        Ok(WireRequest { path: "/v1/messages".to_owned(), headers, body })
    }

    fn decode(&self, body: &[u8]) -> Result<DecodedResponse, CallError> {
        decode::body(&json_util::parse(body)?)
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn stream_decoder(&self) -> Box<dyn StreamDecoder> {
        Box::new(BlockDecoder::default())
    }
}
