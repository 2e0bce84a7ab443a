//! Requests and responses as the HTTP transport sends and receives them.

use serde_json::Value;

use super::call_error::CallError;
use crate::{Finish, Listener, Money, Part, TokenLogprob, Usage};

/// An encoded request, without the base URL and the API key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WireRequest {
    /// Path and query to append to the provider's base URL. As in the providers' own clients, the base URL contains
    /// the API version for OpenAI and compatible servers (`https://api.openai.com/v1`), but not for the other
    /// providers (`https://api.anthropic.com`).
    pub(crate) path: String,
    /// Headers that the protocol requires.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    /// Body of the request, as JSON.
    pub(crate) body: Value,
}

/// A response as decoded from the wire.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DecodedResponse {
    pub(crate) content: Vec<Part>,
    /// Name of the model, if the response states it.
    pub(crate) model: Option<String>,
    pub(crate) finish: Finish,
    /// Token counts, if the provider reports them.
    pub(crate) usage: Option<Usage>,
    /// Cost, if the provider reports it.
    pub(crate) cost: Option<Money>,
    pub(crate) logprobs: Vec<TokenLogprob>,
}

/// Decodes a streamed response, event by event.
pub(crate) trait StreamDecoder: Send {
    /// Decodes the data of an event and sends the pieces of the response that it contains to the listener.
    fn event(&mut self, data: &str, listener: &mut Listener<'_>) -> Result<(), CallError>;

    /// Returns whether the response is complete. If it is, the rest of the stream need not be read.
    fn is_done(&self) -> bool;

    /// Returns whether the finish reason has arrived. After it, only token counts and an end marker can follow, so a
    /// stream that ends without them is not truncated.
    fn has_finish_reason(&self) -> bool;

    /// Returns the token counts that have arrived so far.
    fn usage(&self) -> Usage;

    /// Returns the whole response, or an error if the stream ended before the response was complete.
    fn finish(self: Box<Self>) -> Result<DecodedResponse, CallError>;
}
