//! Codecs, which implement the protocols of the providers.
//!
//! A [`Protocol`] converts a [`Request`](crate::Request) to the body of an HTTP request, and the bytes of a response to
//! a [`DecodedResponse`]. It opens no connection, so it can be tested completely with recorded responses.
//!
//! A streamed response is read by a [`StreamReader`]: a framer splits its bytes into events, and the decoder of the
//! protocol assembles the response from them.

pub(crate) use self::{
    call_error::CallError,
    openai_chat::quirks::Quirks,
    protocol::Protocol,
    provider_error::decode_error,
    stream_reader::StreamReader,
    wire::{DecodedResponse, WireRequest},
};

mod anthropic;
mod breakpoints;
mod builder;
mod call_error;
mod common;
mod embedding;
mod family;
mod framer;
mod gemini;
mod json_util;
mod media;
mod ollama;
mod openai_chat;
mod openai_responses;
mod protocol;
mod provider_error;
mod provider_tool;
mod schema;
mod stream_reader;
#[cfg(test)]
mod tests;
mod wire;
