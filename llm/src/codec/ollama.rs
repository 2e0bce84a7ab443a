//! Ollama's chat API.

pub(super) mod decode;
pub(super) mod encode;
pub(super) mod truncation;
