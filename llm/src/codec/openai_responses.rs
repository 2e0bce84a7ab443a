//! OpenAI's Responses API.

pub(super) mod decode;
pub(super) mod encode;
