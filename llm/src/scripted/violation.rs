//! Makes answers violate the requested format in the ways that real models do.

use serde_json::Value;

use super::script::ViolationKind;

/// Applies a violation to an answer.
pub(crate) fn apply(kind: ViolationKind, text: &str) -> String {
    match kind {
        ViolationKind::Fenced => format!("```json\n{text}\n```"),
        ViolationKind::Prose => {
            format!(
                "Here is what you asked for.\n\n{text}\n\nSay so if you want it in another form."
            )
        }
        ViolationKind::Broken => text.chars().take(text.chars().count() * 2 / 3).collect(),
        ViolationKind::WrongTypes => match serde_json::from_str(text) {
            Ok(value) => in_words(value).to_string(),
            Err(_) => text.to_owned(),
        },
        ViolationKind::Empty => String::new(),
    }
}

fn in_words(value: Value) -> Value {
    match value {
        Value::Bool(truth) => Value::from(if truth { "yes" } else { "no" }),
        Value::Number(number) => Value::String(number.to_string()),
        Value::Array(items) => items.into_iter().map(in_words).collect(),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(key, it)| (key, in_words(it))).collect())
        }
        other => other,
    }
}
