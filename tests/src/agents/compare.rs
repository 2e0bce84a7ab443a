//! Compares answers with the recorded ones.

use serde_json::Value;

use super::case::AgentCase;

/// Describes the differences between the recorded answers and the answers in `got`.
pub fn differences(case: &AgentCase, got: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    let (expected, got) =
        (canonical(&Value::from(case.expect.clone())), canonical(&Value::from(got.to_vec())));
    compare("$", Some(&expected), Some(&got), &mut found);
    found
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

fn compare(path: &str, expected: Option<&Value>, got: Option<&Value>, found: &mut Vec<String>) {
    match (expected, got) {
        (expected, got) if expected == got => {}
        (Some(Value::Array(expected)), Some(Value::Array(got))) => {
            for index in 0..expected.len().max(got.len()) {
                let path = format!("{path}[{index}]");
                compare(&path, expected.get(index), got.get(index), found);
            }
        }
        (Some(Value::Object(expected)), Some(Value::Object(got))) => {
            let mut keys: Vec<_> = expected.keys().chain(got.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                compare(&format!("{path}.{key}"), expected.get(key), got.get(key), found);
            }
        }
        (expected, got) => {
            let text = |it: Option<&Value>| it.map_or("nothing".to_owned(), Value::to_string);
            found.push(format!("{path}\n  expected {}\n  got      {}", text(expected), text(got)));
        }
    }
}
