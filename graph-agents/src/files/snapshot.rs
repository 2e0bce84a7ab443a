//! The state field that contains the files.

use std::collections::BTreeMap;

use graph_core::JsonFieldKind;
use serde_json::{Map, Value};

use crate::{AgentState, state::StateField};

/// Name of the state field that contains the files: an object that maps paths to contents. The content of a deleted
/// file is null.
pub(crate) const FILES: &str = "files";

/// Contents of files by path.
pub(crate) type Files = BTreeMap<String, String>;

/// Returns the state field. Writes of one step are merged by path, so tools can change different files in parallel.
pub(crate) fn files_field() -> StateField {
    StateField::new(FILES, JsonFieldKind::Merge)
}

/// Returns the files in the state.
pub(crate) fn read_files(state: &AgentState) -> Files {
    state.get(FILES).map(files_in).unwrap_or_default()
}

fn files_in(value: &Value) -> Files {
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(path, it)| Some((path.clone(), it.as_str()?.to_owned()))).collect()
}

/// Returns the write that changes the files `before` to the files `after`, or `None` if they are equal.
pub(crate) fn changes(before: &Files, after: &Files) -> Option<Value> {
    let changed = after.iter().filter(|(path, text)| before.get(*path) != Some(*text));
    let changed = changed.map(|(path, text)| (path.clone(), Value::String(text.clone())));
    let deleted = before.keys().filter(|path| !after.contains_key(*path));
    let deleted = deleted.map(|path| (path.clone(), Value::Null));
    let write: Map<String, Value> = changed.chain(deleted).collect();
    (!write.is_empty()).then_some(Value::Object(write))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{changes, files_in};

    #[test]
    fn changes_contain_new_changed_and_deleted_files() {
        let before = files_in(&json!({"a": "1", "b": "2", "c": "3", "gone": null}));
        let after = files_in(&json!({"a": "1", "b": "x", "d": "4"}));
        assert_eq!(changes(&before, &after), Some(json!({"b": "x", "c": null, "d": "4"})));
        assert_eq!(changes(&before, &before), None);
    }
}
