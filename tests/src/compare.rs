//! Compares the engine's answers with the recorded answers.

use std::fmt;

use serde_json::{Map, Value};

use crate::case::{Call, Case};

/// The first difference between two answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Index of the call in the script.
    pub call: usize,
    /// JSON path within the answer, for example `$.steps[1].tasks[0].result`.
    pub path: String,
    pub expected: Option<Value>,
    pub got: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "call {}, at {}", self.call, self.path)?;
        writeln!(f, "  expected {}", abbreviated(self.expected.as_ref()))?;
        write!(f, "  got      {}", abbreviated(self.got.as_ref()))
    }
}

/// Returns the first difference between the engine's answers and the recorded answers.
pub fn compare(case: &Case, got: &[Value]) -> Option<Difference> {
    (0..case.expect.len().max(got.len())).find_map(|call| {
        let expected = answer(case, &case.expect, call);
        let got = answer(case, got, call);
        let (path, expected, got) = first_difference("$", expected.as_ref(), got.as_ref())?;
        Some(Difference { call, path, expected, got })
    })
}

/// Returns an answer in normalized form for comparison. Parts that are not compared are removed, and lists whose
/// order is irrelevant are sorted.
pub fn answer(case: &Case, answers: &[Value], call: usize) -> Option<Value> {
    let mut answer = answers.get(call)?.clone();
    let Some(call) = case.script.get(call) else { return Some(answer) };
    match &mut answer {
        Value::Object(run) if call.runs() => normalize_run(case, call, run),
        Value::Object(state) => normalize_state(state),
        Value::Array(states) if call.history => {
            states.iter_mut().filter_map(Value::as_object_mut).for_each(normalize_state);
        }
        other => sort(Some(other)),
    }
    Some(answer)
}

fn normalize_run(case: &Case, call: &Call, run: &mut Map<String, Value>) {
    let has_checkpointer = case.graph.compile.checkpointer != Some(false);
    let refused = run.get("error").is_some_and(|it| it == "invalid_update");
    if !has_checkpointer || call.thread.is_none() || refused {
        run.remove("interrupts");
        run.remove("next");
    }
    sort(run.get_mut("interrupts"));
    sort(run.get_mut("next"));
    items(run.get_mut("updates")).for_each(|it| sort(Some(it)));
    for task in items(run.get_mut("steps")).flat_map(|it| items(it.get_mut("tasks"))) {
        sort(task.get_mut("interrupts"));
    }
}

fn normalize_state(state: &mut Map<String, Value>) {
    sort(state.get_mut("next"));
    for task in items(state.get_mut("tasks")) {
        sort(task.get_mut("interrupts"));
        if let Some(inner) = task.get_mut("state").and_then(Value::as_object_mut) {
            normalize_state(inner);
        }
    }
    sort(state.get_mut("tasks"));
}

fn items(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

/// Sorts a list by the JSON text of its items.
fn sort(list: Option<&mut Value>) {
    if let Some(items) = list.and_then(Value::as_array_mut) {
        items.iter_mut().for_each(Value::sort_all_objects);
        items.sort_by_cached_key(Value::to_string);
    }
}

pub(crate) type PathDifference = (String, Option<Value>, Option<Value>);

/// Returns the first difference between two values: its JSON path, and the parts that differ.
pub(crate) fn first_difference(
    path: &str,
    expected: Option<&Value>,
    got: Option<&Value>,
) -> Option<PathDifference> {
    match (expected, got) {
        (expected, got) if expected == got => None,
        (Some(Value::Array(expected)), Some(Value::Array(got))) => {
            (0..expected.len().max(got.len())).find_map(|index| {
                let path = format!("{path}[{index}]");
                first_difference(&path, expected.get(index), got.get(index))
            })
        }
        (Some(Value::Object(expected)), Some(Value::Object(got))) => {
            // Compare errors first, because an error explains most other differences.
            let mut keys: Vec<_> = expected.keys().chain(got.keys()).collect();
            keys.sort_by_key(|key| (*key != "error", *key));
            keys.into_iter().find_map(|key| {
                first_difference(&format!("{path}.{key}"), expected.get(key), got.get(key))
            })
        }
        (expected, got) => Some((path.to_owned(), expected.cloned(), got.cloned())),
    }
}

/// Formats a value on one line and truncates it if it is too long.
pub(crate) fn abbreviated(value: Option<&Value>) -> String {
    const MAX_CHARS: usize = 300;
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    fn case(call: &str, expect: &str) -> Case {
        let graph = r#"{"state": {}, "nodes": {}, "edges": []}"#;
        let case = format!(
            r#"{{"id": "x", "about": "", "graph": {graph}, "script": [{call}], "expect": [{expect}]}}"#
        );
        serde_json::from_str(&case).unwrap()
    }

    #[track_caller]
    fn check(call: &str, expect: &str, got: &str, path: Option<&str>) {
        let found = compare(&case(call, expect), &[json(got)]);
        assert_eq!(found.map(|it| it.path).as_deref(), path);
    }

    const RUN: &str = r#"{"invoke": {}}"#;

    #[test]
    fn first_difference_is_reported_with_its_path() {
        check(
            RUN,
            r#"{"steps": [{"step": 1, "tasks": [{"result": {"a": [1, 2], "b": 1}}]}]}"#,
            r#"{"steps": [{"step": 1, "tasks": [{"result": {"a": [1], "b": 2}}]}]}"#,
            Some("$.steps[0].tasks[0].result.a[1]"),
        );
        check(RUN, r#"{"calls": {}}"#, r#"{"error": "invalid_graph"}"#, Some("$.error"));
        check(RUN, r#"{"custom": [1]}"#, r#"{"custom": [1]}"#, None);
    }

    #[test]
    fn order_is_ignored_in_sorted_lists() {
        check(
            RUN, r#"{"updates": [[{"a": 1}, {"b": 2}]]}"#,
            r#"{"updates": [[{"b": 2}, {"a": 1}]]}"#, None,
        );
        check(RUN, r#"{"values": [1, 2]}"#, r#"{"values": [2, 1]}"#, Some("$.values[0]"));
        check(r#"{"state": true}"#, r#"{"next": ["a", "b"]}"#, r#"{"next": ["b", "a"]}"#, None);
    }

    #[test]
    fn pending_nodes_are_not_compared_after_an_invalid_update() {
        let run = |error: &str, next: &str| format!(r#"{{"error": "{error}", "next": {next}}}"#);
        let refused = |next| run("invalid_update", next);
        check(RUN, &refused("[]"), &refused(r#"["a"]"#), None);
        let failed = |next| run("node:x", next);
        check(RUN, &failed("[]"), &failed(r#"["a"]"#), Some("$.next[0]"));
    }

    #[test]
    fn missing_answer_is_a_difference() {
        let found = compare(&case(r#"{"state": true}"#, "{}"), &[]);
        assert_eq!(found.map(|it| it.call), Some(0));
    }
}
