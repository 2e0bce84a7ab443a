//! Parsing and formatting of structured responses.

use serde_json::{Map, Value};

use crate::{AgentError, notation, tool::schema};

/// Validates the arguments of a structured-output tool, or the parsed text of a response. Returns `data` unchanged if
/// `checked` is false.
pub(crate) fn parse_value(
    checked: bool,
    name: &str,
    schema: &Value,
    data: &Map<String, Value>,
) -> Result<Value, AgentError> {
    if !checked {
        return Ok(Value::Object(data.clone()));
    }
    schema::check(schema, data).map(Value::Object).map_err(|faults| {
        let faults: Vec<_> = faults.iter().map(|it| format!("{it} [{}]", it.kind)).collect();
        invalid(name, &format!("Failed to parse data to {name}: {}", faults.join("; ")))
    })
}

/// Parses the text of a response as JSON.
pub(crate) fn parse_text(name: &str, text: &str) -> Result<Map<String, Value>, AgentError> {
    serde_json::from_str(text).map_err(|error| {
        let problem = format!(
            "Native structured output expected valid JSON for {name}, but parsing failed: {error}."
        );
        invalid(name, &problem)
    })
}

fn invalid(name: &str, problem: &str) -> AgentError {
    AgentError::named(
        "StructuredOutputValidationError",
        format!("Failed to parse structured output for tool '{name}': {problem}."),
    )
}

/// Returns the required fields in the order of the schema.
pub(super) fn field_order(schema: &Value) -> Vec<String> {
    let required = schema["required"].as_array().into_iter().flatten();
    required.filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

/// Formats the fields of a response: `city='Rome' temp=20`.
pub(super) fn format_fields(object: &Map<String, Value>, order: &[String]) -> String {
    let known = order.iter().filter_map(|it| object.get_key_value(it));
    let others = object.iter().filter(|(name, _)| !order.contains(name));
    let fields =
        known.chain(others).map(|(name, value)| format!("{name}={}", notation::python(value)));
    fields.collect::<Vec<_>>().join(" ")
}
