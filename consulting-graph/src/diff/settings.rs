//! What two runs were given.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{SettingChange, Sides, text::around_difference};
use crate::run::Run;

/// What is another one in every run and decides nothing, or is shown in another form.
const OF_ONE_RUN: [&str; 3] = ["run_id", "nonce", "config"];

/// The settings that differ between two runs, by their places.
pub(super) fn between(a: &Run, b: &Run) -> Vec<SettingChange> {
    changes(&settings(a), &settings(b))
}

/// The settings that differ, by their places.
pub(crate) fn changes(a: &Value, b: &Value) -> Vec<SettingChange> {
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
        let nothing = String::new();
        let shown = around_difference(a.unwrap_or(&nothing), b.unwrap_or(&nothing));
        let values = Sides { a: a.map(|_| shown.a), b: b.map(|_| shown.b) };
        Some(SettingChange { path: path.clone(), values })
    };
    paths.into_iter().filter_map(change).collect()
}

/// What a run was given, with its configuration as data in place of its text.
fn settings(run: &Run) -> Value {
    let object = |it: Value| it.as_object().cloned().unwrap_or_default();
    let mut given = object(serde_json::to_value(&run.manifest().given).unwrap_or_default());
    given.retain(|name, _| !OF_ONE_RUN.contains(&name.as_str()));
    given.extend(object(serde_json::to_value(run.config()).unwrap_or_default()));
    Value::Object(given)
}

/// Writes a tree as its leaves with their paths. Items of a list are called by their ids, where they have some, so that
/// one more in front changes nothing about the others.
fn flatten(path: &str, value: &Value, leaves: &mut BTreeMap<String, String>) {
    let below =
        |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                flatten(&below(name), member, leaves);
            }
        }
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                let place = (n + 1).to_string();
                let name = item.get("id").and_then(Value::as_str).unwrap_or(&place);
                flatten(&below(name), item, leaves);
            }
        }
        Value::Null => {}
        Value::String(text) => drop(leaves.insert(path.to_owned(), text.clone())),
        other => drop(leaves.insert(path.to_owned(), other.to_string())),
    }
}
