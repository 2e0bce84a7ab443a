//! Functions that several graphs use.

use graph_core::{JsonFieldKind, JsonStateSchema};
use graph_server::langgraph::Schemas;
use serde_json::{Value, json};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Returns the schemas of a graph whose state has these properties.
pub(super) fn schemas(name: &str, properties: &Value) -> Schemas {
    Schemas::of_state(json!({ "title": name, "type": "object", "properties": properties }))
}

/// Returns the schema of a list of strings.
pub(super) fn strings() -> Value {
    json!({ "type": "array", "items": { "type": "string" } })
}

/// Returns the state of the graphs that only keep a log.
pub(super) fn log_state() -> Result<JsonStateSchema> {
    Ok(JsonStateSchema::new([("log", JsonFieldKind::Append)])?)
}
