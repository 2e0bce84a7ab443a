//! The protocols of the providers.

use super::{
    anthropic,
    call_error::CallError,
    family,
    framer::Framing,
    gemini, json_util, ollama, openai_chat,
    openai_chat::quirks::Quirks,
    openai_responses, provider_tool,
    wire::{DecodedResponse, StreamDecoder, WireRequest},
};
use crate::Request;

/// The protocol of one or more providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Anthropic's Messages API.
    Anthropic,
    /// Gemini's `generateContent` API.
    Gemini,
    /// Ollama's chat API.
    Ollama,
    /// OpenAI's chat completions API, which most other providers and servers also implement, with small differences.
    OpenAiChat(Quirks),
    /// OpenAI's Responses API. Unlike chat completions, it lets a conversation include the model's earlier reasoning.
    OpenAiResponses,
}

/// Headers of Anthropic's API. A newer version of the API exists, but it rejects a temperature even for older models.
const ANTHROPIC_HEADERS: &[(&str, &str)] = &[("anthropic-version", "2023-06-01")];

/// Headers for requests that let Anthropic execute code.
const ANTHROPIC_CODE_HEADERS: &[(&str, &str)] =
    &[ANTHROPIC_HEADERS[0], ("anthropic-beta", "code-execution-2025-08-25")];

impl Protocol {
    /// Returns whether a model accepts a temperature, based on the model's name.
    pub(crate) fn supports_temperature(self, model: &str) -> bool {
        match self {
            Self::Ollama => true,
            Self::OpenAiChat(quirks) => quirks.supports_temperature(model),
            Self::Anthropic | Self::Gemini | Self::OpenAiResponses => {
                family::supports_temperature(model)
            }
        }
    }

    /// Encodes a request for a model. If `stream` is true, the request asks for a streamed response.
    ///
    /// The caller has already removed the temperature from the request if the model rejects one.
    pub(crate) fn encode(
        self,
        model: &str,
        request: &Request,
        stream: bool,
    ) -> Result<WireRequest, CallError> {
        let (path, body) = match self {
            Self::Anthropic => {
                ("/v1/messages".to_owned(), anthropic::encode::body(model, request, stream)?)
            }
            Self::Gemini => {
                // The names in Google's list of models have this prefix.
                let model = model.strip_prefix("models/").unwrap_or(model);
                let method =
                    if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
                let path = format!("/v1beta/models/{model}:{method}");
                (path, gemini::encode::body(model, request)?)
            }
            Self::Ollama => ("/api/chat".to_owned(), ollama::encode::body(model, request, stream)?),
            Self::OpenAiChat(quirks) => (
                "/chat/completions".to_owned(),
                openai_chat::encode::body(&quirks, model, request, stream)?,
            ),
            Self::OpenAiResponses => {
                ("/responses".to_owned(), openai_responses::encode::body(model, request, stream)?)
            }
        };
        let headers = match self {
            Self::Anthropic if provider_tool::runs_code(request) => ANTHROPIC_CODE_HEADERS,
            Self::Anthropic => ANTHROPIC_HEADERS,
            _ => &[],
        };
        Ok(WireRequest { path, headers, body: body.into() })
    }

    /// Decodes a response that is not streamed.
    pub(crate) fn decode(self, body: &[u8]) -> Result<DecodedResponse, CallError> {
        let body = json_util::parse(body)?;
        match self {
            Self::Anthropic => anthropic::decode::body(&body),
            Self::Gemini => gemini::decode::body(&body),
            Self::Ollama => ollama::decode::body(&body),
            Self::OpenAiChat(_) => openai_chat::decode::body(&body),
            Self::OpenAiResponses => openai_responses::decode::body(&body),
        }
    }

    /// Returns an error if the response shows that the server truncated the prompt.
    pub(crate) fn check_not_truncated(
        self,
        wire: &WireRequest,
        answer: &DecodedResponse,
    ) -> Result<(), CallError> {
        match (self, &answer.usage) {
            (Self::Ollama, Some(usage)) => ollama::truncation::check(&wire.body, usage),
            _ => Ok(()),
        }
    }

    /// Returns how a streamed response is split into events.
    pub(crate) fn framing(self) -> Framing {
        if self == Self::Ollama { Framing::Lines } else { Framing::Sse }
    }

    /// Creates a decoder for one streamed response.
    pub(crate) fn stream_decoder(self) -> Box<dyn StreamDecoder> {
        match self {
            Self::Anthropic => Box::<anthropic::decode::BlockDecoder>::default(),
            Self::Gemini => Box::<gemini::decode::ChunkDecoder>::default(),
            Self::Ollama => Box::<ollama::decode::LineDecoder>::default(),
            Self::OpenAiChat(_) => Box::<openai_chat::decode::ChunkDecoder>::default(),
            Self::OpenAiResponses => Box::<openai_responses::decode::EventDecoder>::default(),
        }
    }
}
