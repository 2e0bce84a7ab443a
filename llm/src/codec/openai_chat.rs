//! OpenAI's chat completions API.

pub(super) mod decode;
pub(super) mod encode;
pub(super) mod quirks;
