//! Differences between two texts or two sets of settings.

use std::collections::BTreeMap;

use app_support::terminal::strip_invisible;
use serde::Serialize;
use serde_json::Value;

/// Maximum number of characters in an excerpt.
const EXCERPT: usize = 120;

/// Number of characters in an excerpt before the first difference.
const CONTEXT: usize = 30;

/// One value for each of two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Sides<T> {
    /// Value of the first run.
    pub a: T,
    /// Value of the second run.
    pub b: T,
}

/// A setting that differs between two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingChange {
    /// Path of the setting, such as `models.D1.temperature`.
    pub path: String,
    /// Shortened values. A value is `None` if the setting is not set in that run.
    pub values: Sides<Option<String>>,
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

/// Returns excerpts of both texts, each on one line: the whole texts if they are short, otherwise starting shortly
/// before the first difference.
pub(crate) fn around_difference(a: &str, b: &str) -> Sides<String> {
    let is_short = [a, b].iter().all(|it| it.chars().count() <= EXCERPT);
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let start = if is_short { 0 } else { same.saturating_sub(CONTEXT) };
    let part = |text: &str| {
        let part: String = text.chars().skip(start).take(EXCERPT).collect();
        let part = part.split_whitespace().collect::<Vec<_>>().join(" ");
        let before = if start > 0 { "…" } else { "" };
        let after = if text.chars().count() > start + EXCERPT { "…" } else { "" };
        strip_invisible(&format!("{before}{part}{after}"))
    };
    Sides { a: part(a), b: part(b) }
}
