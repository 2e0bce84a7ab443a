//! Gemini's `generateContent` API.

pub(super) mod decode;
pub(super) mod encode;
