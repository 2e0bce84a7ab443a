//! Field paths, which select the parts of a value that are indexed as text.

use std::str::FromStr;

use serde_json::Value;

use crate::store::error::StoreError;

/// Selects the parts of a value that are indexed as text.
///
/// | path | selects |
/// | --- | --- |
/// | `$` | the whole value, as JSON |
/// | `text`, `a.b` | a field |
/// | `items[*].text` | a field of every element |
/// | `items[0]`, `items[-1]` | one element, counted from the start or the end |
///
/// ```
/// use graph_core::store::FieldPath;
/// use serde_json::json;
///
/// let path: FieldPath = "items[*].text".parse()?;
/// let value = json!({"items": [{"text": "tea"}, {"text": "cake"}]});
/// assert_eq!(path.texts(&value), ["tea", "cake"]);
/// # Ok::<(), graph_core::store::StoreError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(String),
    Each,
    At(i64),
}

impl FieldPath {
    /// Returns the path `$`, which selects the whole value.
    pub fn whole() -> Self {
        Self { steps: Vec::new() }
    }

    /// Returns the selected texts. The result is empty if the value has no such field.
    ///
    /// Numbers, booleans, arrays and objects are converted to JSON text. Null and empty strings are omitted, because
    /// embedders cannot use them.
    pub fn texts(&self, value: &Value) -> Vec<String> {
        let mut texts = Vec::new();
        collect(&self.steps, value, &mut texts);
        texts
    }

    pub(super) fn parse_all(paths: &[&str]) -> Result<Vec<Self>, StoreError> {
        paths.iter().map(|it| it.parse()).collect()
    }
}

impl FromStr for FieldPath {
    type Err = StoreError;

    fn from_str(path: &str) -> Result<Self, StoreError> {
        if path == "$" {
            return Ok(Self::whole());
        }
        let mut steps = Vec::new();
        for segment in path.strip_prefix("$.").unwrap_or(path).split('.') {
            parse_segment(segment, &mut steps)
                .map_err(|problem| StoreError::InvalidPath { path: path.to_owned(), problem })?;
        }
        Ok(Self { steps })
    }
}

/// Parses one segment between dots. A segment is a name, followed by any number of bracketed indexes.
fn parse_segment(segment: &str, steps: &mut Vec<Step>) -> Result<(), &'static str> {
    let (name, mut brackets) = segment.split_at(segment.find('[').unwrap_or(segment.len()));
    if name.is_empty() {
        return Err("a field name is missing");
    }
    if name.contains(['*', '{', '}', ']']) {
        return Err("`*`, `{`, `}` and `]` are not allowed in a field name");
    }
    steps.push(Step::Field(name.to_owned()));
    while !brackets.is_empty() {
        let (inside, rest) = brackets
            .strip_prefix('[')
            .and_then(|it| it.split_once(']'))
            .ok_or("the brackets do not match")?;
        steps.push(match inside {
            "*" => Step::Each,
            _ => Step::At(inside.parse().map_err(|_| "brackets must contain a number or `*`")?),
        });
        brackets = rest;
    }
    Ok(())
}

fn collect(steps: &[Step], value: &Value, texts: &mut Vec<String>) {
    let Some((step, rest)) = steps.split_first() else {
        texts.extend(text(value).filter(|it| !it.is_empty()));
        return;
    };
    match (step, value) {
        (Step::Field(name), Value::Object(fields)) => {
            fields.get(name).into_iter().for_each(|it| collect(rest, it, texts));
        }
        (Step::Each, Value::Array(list)) => {
            list.iter().for_each(|it| collect(rest, it, texts));
        }
        (Step::At(position), Value::Array(list)) => {
            element(list, *position).into_iter().for_each(|it| collect(rest, it, texts));
        }
        _ => {}
    }
}

fn element(list: &[Value], position: i64) -> Option<&Value> {
    let distance = usize::try_from(position.unsigned_abs()).ok()?;
    list.get(if position < 0 { list.len().checked_sub(distance)? } else { distance })
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(path: &str, expect: &[&str]) {
        let value = json!({
            "text": "tea", "n": 7, "none": null, "empty": "",
            "a": {"b": "deep"}, "list": [["x", "y"], ["z"]], "items": [{"t": "1"}, {}, {"t": "2"}],
        });
        assert_eq!(path.parse::<FieldPath>().unwrap().texts(&value), expect, "{path}");
    }

    #[test]
    fn paths_select_fields_elements_and_the_whole_value() {
        check("text", &["tea"]);
        check("$.text", &["tea"]);
        check("n", &["7"]);
        check("a.b", &["deep"]);
        check("a", &[r#"{"b":"deep"}"#]);
        check("items[*].t", &["1", "2"]);
        check("list[*][*]", &["x", "y", "z"]);
        check("list[-1][0]", &["z"]);
        let whole = FieldPath::whole().texts(&json!({"b": 1, "a": 2}));
        assert_eq!(whole, [r#"{"a":2,"b":1}"#]);
    }

    #[test]
    fn missing_and_empty_values_yield_no_text() {
        for path in ["none", "empty", "missing", "text.b", "a[*]", "list[9]", "list[-9]", "n[0]"] {
            check(path, &[]);
        }
    }

    #[test]
    fn error_contains_the_invalid_path() {
        for path in ["", "a..b", ".a", "[0]", "a[", "a[x]", "a[0]b", "a]", "*", "{a,b}", "$."] {
            let error = path.parse::<FieldPath>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("field path {path:?} ")), "{error}");
        }
    }
}
