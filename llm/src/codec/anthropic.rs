//! Anthropic's Messages API.

pub(super) mod decode;
pub(super) mod encode;
