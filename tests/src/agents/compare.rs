//! Compares answers with the recorded ones.

use serde_json::Value;

use super::case::AgentCase;
use crate::compare::{abbreviated, first_difference};

/// Describes the first difference between the recorded answers and the answers in `got`.
pub fn difference(case: &AgentCase, got: &[Value]) -> Option<String> {
    let (expected, got) =
        (canonical(&Value::from(case.expect.clone())), canonical(&Value::from(got.to_vec())));
    let (path, expected, got) = first_difference("$", Some(&expected), Some(&got))?;
    let (expected, got) = (abbreviated(expected.as_ref()), abbreviated(got.as_ref()));
    Some(format!("{path}\n  expected {expected}\n  got      {got}"))
}

/// Replaces texts that are JSON objects or lists with a form whose keys are sorted.
///
/// `graph-agents` does not preserve the order of keys in JSON objects, so its texts may differ from the recorded ones
/// in this order.
fn canonical(value: &Value) -> Value {
    match value {
        Value::String(text) if text.starts_with(['{', '[']) => {
            match serde_json::from_str::<Value>(text) {
                Ok(json) => Value::String(json.to_string()),
                Err(_) => value.clone(),
            }
        }
        Value::Array(items) => items.iter().map(canonical).collect(),
        Value::Object(object) => {
            object.iter().map(|(key, value)| (key.clone(), canonical(value))).collect()
        }
        other => other.clone(),
    }
}
