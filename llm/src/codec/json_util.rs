//! Lenient access to JSON from providers. Missing values and values of unexpected types count as empty.

use serde_json::Value;

use super::call_error::CallError;
use crate::{ErrorKind, excerpt};

/// Maximum number of characters to keep of a provider's text. A secret that is cut in two at this limit is not
/// redacted. It never appears in an error message, because messages are truncated to a much lower limit after the
/// redaction.
const MAX_CHARS: usize = 16 << 10;

/// Maximum token count. It is far above that of any response, and low enough that sums of counts do not overflow.
const MAX_COUNT: u64 = 1 << 40;

/// Parses the JSON of a response body or of an event.
pub(super) fn parse(text: &[u8]) -> Result<Value, CallError> {
    serde_json::from_slice(text).map_err(|error| {
        let text = capped(&String::from_utf8_lossy(text));
        malformed(&format!("not JSON ({error}): {text}"))
    })
}

/// Creates an error for a response that cannot be parsed.
pub(super) fn malformed(message: &str) -> CallError {
    CallError::new(ErrorKind::Malformed, message)
}

/// Creates an error for a response without a part that every response has.
pub(super) fn lacks(body: &Value, part: &str) -> CallError {
    malformed(&format!("the response has no {part}: {}", capped(&body.to_string())))
}

/// Returns the string field with this name, or an empty string if the field is missing or not a string.
pub(super) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// Returns the array field with this name, or an empty slice if the field is missing or not an array.
pub(super) fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the number at this JSON pointer, at most [`MAX_COUNT`], or zero if no number is there.
pub(super) fn count(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_default().min(MAX_COUNT)
}

/// Returns the first [`MAX_CHARS`] characters of a text, without control characters.
pub(super) fn capped(text: &str) -> String {
    excerpt::printable(text.trim(), MAX_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_limited() {
        let usage = serde_json::json!({ "some": 7, "huge": u64::MAX, "negative": -1 });
        let counts = ["/some", "/huge", "/negative", "/missing"].map(|it| count(&usage, it));
        assert_eq!(counts, [7, MAX_COUNT, 0, 0]);
    }

    #[test]
    fn long_texts_are_capped() {
        assert_eq!(capped(" a\nb "), "a b");
        assert_eq!(capped(&"ü".repeat(MAX_CHARS)).chars().count(), MAX_CHARS);
        assert_eq!(capped(&"ü".repeat(9 * MAX_CHARS)).chars().count(), MAX_CHARS + 1);
    }
}
