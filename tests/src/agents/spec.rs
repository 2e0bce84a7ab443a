//! Reads what the descriptions of agents and of middleware have in common: state fields and tools.

use graph_agents::StateField;
use graph_core::JsonFieldKind;
use serde_json::{Map, Value};

use super::case::ToolSpec;

/// Converts the descriptions of state fields.
pub(super) fn state_fields(fields: &Map<String, Value>) -> Vec<StateField> {
    let field = |(name, spec): (&String, &Value)| {
        let kind = spec.as_str().or_else(|| spec["kind"].as_str()).unwrap_or_default();
        let field = StateField::new(name, field_kind(kind));
        match spec["visible"].as_str() {
            Some("private") => field.visible(false, false),
            Some("no_input") => field.visible(false, true),
            Some("no_output") => field.visible(true, false),
            _ => field,
        }
    };
    fields.iter().map(field).collect()
}

/// Returns the kind of a field by its name in the case files. The default keeps the last value.
pub(super) fn field_kind(kind: &str) -> JsonFieldKind {
    match kind {
        "append" => JsonFieldKind::Append,
        "sum" => JsonFieldKind::Sum,
        _ => JsonFieldKind::Last,
    }
}

/// Reads the description of a tool.
pub(super) fn tool_spec(spec: &Value) -> ToolSpec {
    serde_json::from_value(spec.clone()).expect("a tool")
}
