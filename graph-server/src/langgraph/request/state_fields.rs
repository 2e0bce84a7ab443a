//! The selection of fields of a state.

use serde_json::Value;

use super::page::{check_fields, select};
use crate::langgraph::{error::ApiResult, state_json::STATE_FIELDS};

/// Prefix of a selection of one field of the graph's state.
const VALUES_PREFIX: &str = "values.";

/// Keeps only the selected fields of an encoded state. `values.x` selects the field `x` of the values. An empty
/// selection keeps all fields. Fails if a selected field is unknown.
pub(in crate::langgraph) fn select_state(state: &Value, fields: &[String]) -> ApiResult<Value> {
    let (keys, mut fields): (Vec<_>, Vec<_>) =
        fields.iter().cloned().partition(|it| it.starts_with(VALUES_PREFIX));
    check_fields(&fields, &STATE_FIELDS)?;
    if keys.is_empty() || fields.iter().any(|it| it == "values") {
        return select(state, &fields, &STATE_FIELDS);
    }
    fields.push("values".to_owned());
    let mut selected = select(state, &fields, &STATE_FIELDS)?;
    if let Value::Object(values) = &mut selected["values"] {
        values.retain(|key, _| keys.iter().any(|it| it.strip_prefix(VALUES_PREFIX) == Some(key)));
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn single_values_are_selected_by_name() {
        let state = json!({ "values": { "a": 1, "b": 2 }, "next": ["n"], "tasks": [] });
        let select = |fields: &[&str]| {
            select_state(&state, &fields.iter().map(|&it| it.to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(select(&[]).unwrap(), state);
        let one = json!({ "values": { "a": 1 }, "next": ["n"] });
        assert_eq!(select(&["values.a", "next"]).unwrap(), one);
        assert_eq!(
            select(&["values.a", "values"]).unwrap(),
            json!({ "values": { "a": 1, "b": 2 } })
        );
        assert_eq!(select(&["values.missing"]).unwrap(), json!({ "values": {} }));
        assert!(select(&["values.a", "surprise"]).is_err());
    }
}
