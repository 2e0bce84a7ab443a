//! What two runs were given.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{SettingChange, Sides, text::around_difference};
use crate::run::Run;

/// What is another one in every run and decides nothing.
const OF_ONE_RUN: [&str; 2] = ["run_id", "nonce"];

/// The settings that differ, by their places.
pub(super) fn changes(a: &Run, b: &Run) -> Vec<SettingChange> {
    let (left, right) = (settings(a), settings(b));
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

fn settings(run: &Run) -> BTreeMap<String, String> {
    let mut leaves = BTreeMap::new();
    let given = serde_json::to_value(&run.manifest().given).unwrap_or_default();
    let mut given = given.as_object().cloned().unwrap_or_default();
    given.retain(|name, _| !OF_ONE_RUN.contains(&name.as_str()));
    flatten("", &Value::Object(given), &mut leaves);
    let config = serde_json::to_value(run.config()).unwrap_or_default();
    flatten("", &config, &mut leaves);
    leaves
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
