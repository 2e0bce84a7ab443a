//! JSON Schemas.

use serde_json::{Value, json};

/// Returns the schema of an object with these properties.
pub(crate) fn object(title: &str, properties: &Value) -> Value {
    json!({ "title": title, "type": "object", "properties": properties })
}
