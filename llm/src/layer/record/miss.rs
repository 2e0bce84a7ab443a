//! Error messages for calls that a recording does not contain. They describe how the closest recorded call differs.

use std::{cmp::Reverse, path::Path};

use serde_json::Value;

use super::{super::key::Key, file::Contents};

/// Number of characters to show around a difference.
const EXCERPT_CHARS: usize = 40;

/// Describes the missing call, how the closest recorded call differs from it, and what to do.
pub(super) fn explain(path: &Path, contents: &Contents, key: Key, call: &Value) -> String {
    let path = path.display();
    let requested = excerpt(&prompt_text(call), 0);
    let times = contents.with_key(key).len();
    if times > 0 {
        return format!(
            "`{path}` contains too few calls like this one ({times} recorded, one more requested): {requested}; \
             record the run again, or record the missing calls"
        );
    }
    let differences = contents.lines.iter().map(|it| (it.number, Difference::of(&it.call, call)));
    let nearest = differences.min_by_key(|(_, it)| (it.count, Reverse(it.common)));
    let Some((number, Difference { count, first, .. })) = nearest else {
        return format!(
            "`{path}` contains no calls, so it cannot answer {requested}; record the run first"
        );
    };
    let plural = if count == 1 { "" } else { "s" };
    format!(
        "`{path}` does not contain the call {requested}; the closest one, call {number}, differs in {count} \
         place{plural}, first {first}; record the run again, or record the missing calls"
    )
}

/// Returns the text of the last message.
fn prompt_text(call: &Value) -> String {
    let parts = call["request"]["messages"].as_array().and_then(|it| it.last());
    let parts = parts.and_then(|it| it["parts"].as_array()).into_iter().flatten();
    parts.filter_map(|it| it["text"].as_str().or_else(|| it["content"].as_str())).collect()
}

/// Differences between a requested call and a recorded call.
#[derive(Default)]
struct Difference {
    /// Number of differences.
    count: usize,
    /// Description of the first difference.
    first: String,
    /// Total length, in bytes, of the common prefix and the common suffix of the two texts at the first difference.
    common: usize,
}

impl Difference {
    fn of(recorded: &Value, requested: &Value) -> Self {
        let mut difference = Self::default();
        difference.compare(&mut String::new(), Some(recorded), Some(requested));
        difference
    }

    fn compare(&mut self, path: &mut String, recorded: Option<&Value>, requested: Option<&Value>) {
        match (recorded, requested) {
            (Some(Value::Object(recorded)), Some(Value::Object(requested))) => {
                let mut names: Vec<_> = recorded.keys().chain(requested.keys()).collect();
                names.sort_unstable();
                names.dedup();
                for name in names {
                    let dot = if path.is_empty() { "" } else { "." };
                    let (recorded, requested) = (recorded.get(name), requested.get(name));
                    self.compare_child(path, &format!("{dot}{name}"), recorded, requested);
                }
            }
            (Some(Value::Array(recorded)), Some(Value::Array(requested))) => {
                for nth in 0..recorded.len().max(requested.len()) {
                    self.compare_child(
                        path,
                        &format!("[{nth}]"),
                        recorded.get(nth),
                        requested.get(nth),
                    );
                }
            }
            (recorded, requested) if recorded == requested => {}
            (recorded, requested) => self.add(path, recorded, requested),
        }
    }

    fn compare_child(
        &mut self,
        path: &mut String,
        step: &str,
        recorded: Option<&Value>,
        requested: Option<&Value>,
    ) {
        let length = path.len();
        path.push_str(step);
        self.compare(path, recorded, requested);
        path.truncate(length);
    }

    fn add(&mut self, path: &str, recorded: Option<&Value>, requested: Option<&Value>) {
        self.count += 1;
        if self.count > 1 {
            return;
        }
        let [recorded, requested] = [recorded, requested].map(text);
        let start = common_prefix(&recorded, &requested);
        let end = common_prefix_of(recorded.bytes().rev(), requested.bytes().rev());
        self.common = start + end;
        let [recorded, requested] = [recorded, requested].map(|it| excerpt(&it, start));
        self.first = format!("at `{path}`: recorded {recorded}, requested {requested}");
    }
}

fn text(value: Option<&Value>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

/// Returns the length, in bytes, of the longest common prefix that ends at a character boundary.
fn common_prefix(a: &str, b: &str) -> usize {
    let mut length = common_prefix_of(a.bytes(), b.bytes());
    while !a.is_char_boundary(length) || !b.is_char_boundary(length) {
        length -= 1;
    }
    length
}

fn common_prefix_of(a: impl Iterator<Item = u8>, b: impl Iterator<Item = u8>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).count()
}

/// Returns the part of a text around a byte offset, in quotes.
fn excerpt(text: &str, at: usize) -> String {
    let before = text[..at].chars().count();
    let skipped = before.saturating_sub(EXCERPT_CHARS / 2);
    let part: String = text.chars().skip(skipped).take(EXCERPT_CHARS).collect();
    let more = text.chars().count() > skipped + EXCERPT_CHARS;
    let [left, right] = [skipped > 0, more].map(|it| if it { "…" } else { "" });
    format!("{:?}", format!("{left}{part}{right}"))
}
