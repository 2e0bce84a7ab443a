//! Conditions on documents, as SQL.

use serde_json::{Map, Value, json};

use crate::langgraph::storage::Filter;

/// Returns the SQL condition under which a filter includes a document of `table`. The filter has three parameters,
/// whose numbers start with `first`: its owner, whether it includes documents without an owner, and its [conditions on
/// the metadata](metadata_conditions).
pub(super) fn included(table: &str, first: usize) -> String {
    let (owner, shared) = (first, first + 1);
    let document = format!("{}::json", without_nul(&format!("{table}.data")));
    let metadata = conditions_hold(&document, &format!("${}::text", first + 2));
    format!(
        "(${owner}::text IS NULL OR {table}.owner = ${owner} OR ${shared}::boolean AND {table}.owner IS NULL) \
         AND {metadata}"
    )
}

/// Returns the conditions of a filter on the metadata of documents, as JSON text.
pub(super) fn metadata_conditions(filter: Filter<'_>) -> String {
    filter.metadata.iter().map(|it| condition("metadata", it, true)).collect::<Value>().to_string()
}

/// Returns the SQL condition that a JSON document meets all conditions of a JSON list. Only the fields that a condition
/// needs are converted to `jsonb`.
///
/// `@>` compares lists as sets, so the lists of a filter are compared separately.
pub(super) fn conditions_hold(document: &str, conditions: &str) -> String {
    let conditions = without_nul(conditions);
    format!(
        "NOT EXISTS (
        SELECT FROM jsonb_array_elements({conditions}::jsonb) AS condition
        CROSS JOIN LATERAL (
            SELECT ({document} -> (condition ->> 'field'))::jsonb AS content OFFSET 0
        ) AS field
        WHERE (condition ->> 'wanted')::boolean <> (
            coalesce(field.content @> (condition -> 'entries'), false)
            AND NOT EXISTS (
                SELECT FROM jsonb_array_elements(condition -> 'lists') AS list
                WHERE field.content #> ARRAY(SELECT jsonb_array_elements_text(list -> 'path')) <> list -> 'value'
            )
        )
    )"
    )
}

/// Returns the condition that a field equals a value that is not an object or a list.
pub(super) fn equal(field: &str, value: &Value) -> Value {
    json!({ "field": field, "entries": value, "lists": [], "wanted": true })
}

/// Returns the condition that a field contains all entries of `filter`. If `wanted` is false, returns the opposite
/// condition.
pub(super) fn condition(field: &str, filter: &Map<String, Value>, wanted: bool) -> Value {
    let mut lists = Vec::new();
    add_lists(filter, &[], &mut lists);
    json!({ "field": field, "entries": filter, "lists": lists, "wanted": wanted })
}

/// Adds the lists in a filter and in its nested objects, with their paths in the field.
fn add_lists(filter: &Map<String, Value>, path: &[&str], lists: &mut Vec<Value>) {
    for (key, value) in filter {
        let path = [path, &[key.as_str()]].concat();
        match value {
            Value::Array(_) => lists.push(json!({ "path": path, "value": value })),
            Value::Object(entries) => add_lists(entries, &path, lists),
            _ => {}
        }
    }
}

/// Returns an expression that replaces the character U+0000 in JSON text, because PostgreSQL cannot read fields of JSON
/// with this character. Different strings stay different: U+E000 starts a replacement, so it is also replaced. Escaped
/// backslashes are replaced first, because `\\u0000` is a backslash followed by text, not U+0000.
pub(super) fn without_nul(json: &str) -> String {
    format!(
        r"replace(replace(replace({json}, '\\', '\u005c'), chr(57344), '\ue000\ue001'), '\u0000', '\ue000\ue000')"
    )
}
