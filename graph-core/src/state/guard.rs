//! Limits on JSON values, so that a value which cannot be stored is an error and not a crash.
//!
//! Everything here walks values with a list of its own: a value of a million levels would overflow the stack of
//! anything that recurses, its destructor included.

use serde_json::Value;

use super::FieldError;

/// How deep a value may be: what `serde_json` reads back from text is 128 levels deep at most.
const MAX_DEPTH: usize = 120;

/// Takes a value from outside, unless it is too deep.
pub(crate) fn admit(path: &str, value: Value) -> Result<Value, FieldError> {
    match measure(&value) {
        Some(_) => Ok(value),
        None => {
            dispose(value);
            Err(too_deep(path))
        }
    }
}

/// Whether a value can be stored: not too deep, and not too large.
pub(crate) fn check(path: &str, value: &Value, limit: usize) -> Result<(), FieldError> {
    match measure(value) {
        None => Err(too_deep(path)),
        Some(bytes) if bytes > limit => {
            let problem = format_args!(
                "the value takes about {bytes} bytes, and at most {limit} are stored; keep large data elsewhere \
                 and a reference to it in the state, or raise `StateGraph::max_stored_bytes`"
            );
            Err(FieldError::new(path, problem))
        }
        Some(_) => Ok(()),
    }
}

fn too_deep(path: &str) -> FieldError {
    let problem = format_args!("the value is nested deeper than {MAX_DEPTH} levels");
    FieldError::new(path, problem)
}

/// About how many bytes a value takes as text; `None` if it is too deep.
fn measure(value: &Value) -> Option<usize> {
    let mut bytes = 0usize;
    let mut open = vec![(value, 1)];
    while let Some((value, depth)) = open.pop() {
        if depth > MAX_DEPTH {
            return None;
        }
        bytes = bytes.saturating_add(match value {
            Value::String(text) => text.len() + 2,
            Value::Array(items) => {
                open.extend(items.iter().map(|it| (it, depth + 1)));
                items.len() + 2
            }
            Value::Object(entries) => {
                open.extend(entries.values().map(|it| (it, depth + 1)));
                entries.keys().map(|it| it.len() + 4).sum::<usize>() + 2
            }
            _ => 8,
        });
    }
    Some(bytes)
}

/// Drops a value level by level.
fn dispose(value: Value) {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(entries) => open.extend(entries.into_iter().map(|it| it.1)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{admit, check};

    fn nested(levels: usize) -> Value {
        (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
    }

    #[test]
    fn a_million_levels_are_an_error_and_not_a_crash() {
        let error = admit("deep", nested(1_000_000)).unwrap_err();
        assert!(error.to_string().contains("field `deep`: the value is nested deeper"), "{error}");
        assert!(admit("deep", nested(100)).is_ok());
    }

    #[test]
    fn what_is_too_large_says_how_large() {
        let value = json!({"text": "x".repeat(5_000)});
        let error = check("doc", &value, 1_000).unwrap_err();
        assert!(error.to_string().contains("at most 1000 are stored"), "{error}");
        assert!(check("doc", &value, 10_000).is_ok());
    }
}
