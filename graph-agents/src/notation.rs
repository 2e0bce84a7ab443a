//! Texts that models see: values in Python's notation and in JSON with spaces, as LangChain writes them.

use serde_json::{Map, Value};

/// Formats a value as Python's `repr` does: `{'a': 'x', 'b': None}`.
pub fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => python_str(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(python).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(object) => python_object(object),
    }
}

/// Formats an object as Python's `repr` does.
pub fn python_object(object: &Map<String, Value>) -> String {
    let entries =
        object.iter().map(|(key, value)| format!("{}: {}", python_str(key), python(value)));
    format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
}

/// Formats a string as Python's `repr` does: in double quotes if the text contains a single quote and no double quote,
/// otherwise in single quotes.
pub fn python_str(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// Formats a list of strings as Python's `repr` does.
pub fn python_list<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> String {
    let items: Vec<_> = items.into_iter().map(|it| python_str(it.as_ref())).collect();
    format!("[{}]", items.join(", "))
}

/// Formats a value as JSON with a space after each comma and colon, like Python's `json.dumps`. Does not escape
/// non-ASCII characters.
pub fn spaced_json(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(spaced_json).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(object) => {
            let entries = object.iter().map(|(key, value)| {
                format!("{}: {}", Value::from(key.as_str()), spaced_json(value))
            });
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        scalar => scalar.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{python, python_str, spaced_json};

    #[test]
    fn values_are_written_in_python_notation() {
        let value = json!({"a": "x", "b": null, "c": [true, 1.5]});
        assert_eq!(python(&value), "{'a': 'x', 'b': None, 'c': [True, 1.5]}");
    }

    #[test]
    fn quotes_are_chosen_as_in_python() {
        assert_eq!(python_str("it's"), "\"it's\"");
        assert_eq!(python_str("it's \"x\"\n"), "'it\\'s \"x\"\\n'");
    }

    #[test]
    fn json_has_spaces_and_keeps_unicode() {
        assert_eq!(spaced_json(&json!({"a": [1, "ü"]})), "{\"a\": [1, \"ü\"]}");
    }
}
