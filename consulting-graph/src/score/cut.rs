//! Answers with scores that were cut off at the token limit.

use serde::de::IgnoredAny;

/// Returns the part of an answer that is complete. If the answer was cut off at the token limit and is not valid JSON,
/// this is the text up to the last separator, because `1` may be the start of `10`.
pub(crate) fn complete_part(reply: &str, is_cut: bool) -> &str {
    if !is_cut || serde_json::from_str::<IgnoredAny>(reply.trim()).is_ok() {
        return reply;
    }
    reply.trim_end_matches(|it: char| !it.is_whitespace() && !",;|{}".contains(it))
}
