//! Limits on the depth and size of JSON values.
//!
//! All functions traverse values iteratively. A value nested a million levels deep would overflow the stack of any
//! recursive function, including the destructor of [`Value`].

use serde_json::Value;

use crate::state::field::FieldError;

/// Maximum nesting depth of a value. It is lower than the recursion limit of `serde_json`, which refuses to parse text
/// nested deeper than 128 levels.
const MAX_DEPTH: usize = 120;

/// Returns the value, or an error if it is nested too deeply.
pub(crate) fn ensure_depth(path: &str, value: Value) -> Result<Value, FieldError> {
    match measure(&value) {
        Some(_) => Ok(value),
        None => {
            drop_iteratively(value);
            Err(too_deep(path))
        }
    }
}

/// Checks that a value can be stored: it must not be nested too deeply or take more than about `limit` bytes.
pub(crate) fn check_storable(path: &str, value: &Value, limit: usize) -> Result<(), FieldError> {
    match measure(value) {
        None => Err(too_deep(path)),
        Some(bytes) if bytes > limit => {
            let problem = format!(
                "the value takes about {bytes} bytes, more than the limit of {limit}; store large data elsewhere \
                 and keep a reference to it in the state, or raise `StateGraph::max_stored_bytes`"
            );
            Err(FieldError::new(path, problem))
        }
        Some(_) => Ok(()),
    }
}

fn too_deep(path: &str) -> FieldError {
    let problem = format!("the value is nested deeper than {MAX_DEPTH} levels");
    FieldError::new(path, problem)
}

/// Estimates the size of a value as JSON text, in bytes. Returns `None` if the value is nested too deeply.
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

/// Drops a value without recursion.
fn drop_iteratively(value: Value) {
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

    use super::{check_storable, ensure_depth};

    fn nested(levels: usize) -> Value {
        (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
    }

    #[test]
    fn deeply_nested_value_is_rejected_without_stack_overflow() {
        let error = ensure_depth("deep", nested(1_000_000)).unwrap_err();
        assert!(error.to_string().contains("field `deep`: the value is nested deeper"), "{error}");
        assert!(ensure_depth("deep", nested(100)).is_ok());
    }

    #[test]
    fn size_error_contains_the_limit() {
        let value = json!({"text": "x".repeat(5_000)});
        let error = check_storable("doc", &value, 1_000).unwrap_err();
        assert!(error.to_string().contains("more than the limit of 1000"), "{error}");
        assert!(check_storable("doc", &value, 10_000).is_ok());
    }
}
