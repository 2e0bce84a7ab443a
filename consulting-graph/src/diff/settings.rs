//! Compares the settings of two runs.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{SettingChange, Sides, text::around_difference};
use crate::run::Run;

/// Fields of the run configuration that are not compared. `run_id` and `nonce` are not settings. `config` is the text
/// of the configuration file, whose parsed form is compared instead.
const NOT_COMPARED: [&str; 3] = ["run_id", "nonce", "config"];

/// Returns the settings that differ between two runs, sorted by path.
pub(super) fn between(a: &Run, b: &Run) -> Vec<SettingChange> {
    setting_changes(&settings(a), &settings(b))
}

/// Returns the leaves that differ between two JSON values, sorted by path.
pub(crate) fn setting_changes(a: &Value, b: &Value) -> Vec<SettingChange> {
    let [left, right] = [a, b].map(|it| {
        let mut leaves = BTreeMap::new();
        flatten("", it, &mut leaves);
        leaves
    });
    let mut paths: Vec<&String> = left.keys().chain(right.keys()).collect();
    paths.sort();
    paths.dedup();
    let change = |path: &String| {
        let (a, b) = (left.get(path), right.get(path));
        if a == b {
            return None;
        }
        let empty = String::new();
        let shown = around_difference(a.unwrap_or(&empty), b.unwrap_or(&empty));
        let values = Sides { a: a.map(|_| shown.a), b: b.map(|_| shown.b) };
        Some(SettingChange { path: path.clone(), values })
    };
    paths.into_iter().filter_map(change).collect()
}

/// Returns the run configuration, with the parsed configuration file in place of the text of the file.
fn settings(run: &Run) -> Value {
    let object = |it: Value| it.as_object().cloned().unwrap_or_default();
    let mut run_config =
        object(serde_json::to_value(&run.manifest().run_config).unwrap_or_default());
    run_config.retain(|name, _| !NOT_COMPARED.contains(&name.as_str()));
    run_config.extend(object(serde_json::to_value(run.config()).unwrap_or_default()));
    Value::Object(run_config)
}

/// Collects the leaves of a JSON value by path. Items of a list are named by their id, if they have one, so that
/// inserting an item does not rename the others.
fn flatten(path: &str, value: &Value, leaves: &mut BTreeMap<String, String>) {
    let child_path =
        |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                flatten(&child_path(name), member, leaves);
            }
        }
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                let number = (n + 1).to_string();
                let name = item.get("id").and_then(Value::as_str).unwrap_or(&number);
                flatten(&child_path(name), item, leaves);
            }
        }
        Value::Null => {}
        Value::String(text) => drop(leaves.insert(path.to_owned(), text.clone())),
        other => drop(leaves.insert(path.to_owned(), other.to_string())),
    }
}
