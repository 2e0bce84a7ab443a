//! Looking into JSON that somebody else wrote: what is absent or of another type is nothing, not an error.

use serde_json::Value;

use super::CallError;
use crate::ErrorKind;

/// So many characters of the provider's words go into a error. That is far more than an error shows: secrets are
/// taken out in between, and of one that is cut in two here the half would stay.
const MAX_CHARS: usize = 16 << 10;

/// Reads a body or an event.
pub(super) fn parse(text: &[u8]) -> Result<Value, CallError> {
    serde_json::from_slice(text).map_err(|error| {
        let words = capped(&String::from_utf8_lossy(text));
        malformed(&format!("not JSON ({error}): {words}"))
    })
}

/// An answer that cannot be read.
pub(super) fn malformed(message: &str) -> CallError {
    CallError::new(ErrorKind::Malformed, message)
}

/// The text of this name; empty where there is none.
pub(super) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// The list of this name; empty where there is none.
pub(super) fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// The count under this pointer; nothing where there is none.
pub(super) fn count(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}

/// The arguments of a tool call that come as text; no text, or nothing in it, means no arguments.
pub(super) fn arguments(text: &str) -> Result<Value, CallError> {
    if matches!(text.trim(), "" | "null") {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    match serde_json::from_str(text) {
        Ok(arguments @ Value::Object(_)) => Ok(arguments),
        _ => Err(malformed(&format!(
            "the arguments of a tool call are no JSON object: {}",
            capped(text)
        ))),
    }
}

/// The beginning of a text that may be long, without control characters.
pub(super) fn capped(text: &str) -> String {
    let text = text.trim();
    let mut words: String =
        text.chars().take(MAX_CHARS).map(|it| if it.is_control() { ' ' } else { it }).collect();
    if words.len() < text.len() {
        words.push('…');
    }
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_of_calls() {
        assert_eq!(arguments("").unwrap(), json!({}));
        assert_eq!(arguments(" \n").unwrap(), json!({}));
        assert_eq!(arguments("null").unwrap(), json!({}));
        assert_eq!(arguments(r#"{"a":1}"#).unwrap(), json!({ "a": 1 }));
        for bad in ["{\"a\":", "3", "[]", "{} {}"] {
            assert_eq!(arguments(bad).unwrap_err().kind, ErrorKind::Malformed, "{bad}");
        }
    }

    #[test]
    fn long_words_are_capped() {
        assert_eq!(capped(" a\nb "), "a b");
        assert_eq!(capped(&"ü".repeat(MAX_CHARS)).chars().count(), MAX_CHARS);
        assert_eq!(capped(&"ü".repeat(9 * MAX_CHARS)).chars().count(), MAX_CHARS + 1);
    }
}
