//! A call that a recording does not know: which one it is, and how it differs from the nearest.

use std::{cmp::Reverse, path::Path};

use serde_json::Value;

use super::{super::key::Key, file::Contents};

/// How many characters of a text are shown around a difference.
const SHOWN: usize = 40;

/// Says which call is not there, how the nearest one differs from it, and what to do.
pub(super) fn explain(path: &Path, contents: &Contents, key: Key, call: &Value) -> String {
    let path = path.display();
    let asked = shown(&last_words(call), 0);
    let times = contents.with_key(key).len();
    if times > 0 {
        return format!(
            "`{path}` has the answers to {times} calls like this one, and it is asked once more: {asked}; \
             record the run again, or what is missing"
        );
    }
    let differences = contents.lines.iter().map(|it| (it.number, Difference::of(&it.call, call)));
    let nearest = differences.min_by_key(|(_, it)| (it.count, Reverse(it.common)));
    let Some((number, Difference { count, first, .. })) = nearest else {
        return format!(
            "`{path}` has no calls at all, and is asked: {asked}; record the run first"
        );
    };
    let plural = if count == 1 { "" } else { "s" };
    format!(
        "`{path}` has no call like this one: {asked}; the nearest, call {number}, differs in {count} \
         place{plural}, first {first}; record the run again, or what is missing"
    )
}

/// The text that is to be answered.
fn last_words(call: &Value) -> String {
    let parts = call["request"]["messages"].as_array().and_then(|it| it.last());
    let parts = parts.and_then(|it| it["parts"].as_array()).into_iter().flatten();
    parts.filter_map(|it| it["text"].as_str().or_else(|| it["content"].as_str())).collect()
}

/// How a call differs from a recorded one.
#[derive(Default)]
struct Difference {
    /// In how many places.
    count: usize,
    /// The first of them, in words.
    first: String,
    /// How many bytes are the same at the start and the end of the first.
    common: usize,
}

impl Difference {
    fn of(recorded: &Value, asked: &Value) -> Self {
        let mut difference = Self::default();
        difference.compare(&mut String::new(), Some(recorded), Some(asked));
        difference
    }

    fn compare(&mut self, path: &mut String, recorded: Option<&Value>, asked: Option<&Value>) {
        match (recorded, asked) {
            (Some(Value::Object(recorded)), Some(Value::Object(asked))) => {
                let mut names: Vec<_> = recorded.keys().chain(asked.keys()).collect();
                names.sort_unstable();
                names.dedup();
                for name in names {
                    let dot = if path.is_empty() { "" } else { "." };
                    let (recorded, asked) = (recorded.get(name), asked.get(name));
                    self.below(path, &format!("{dot}{name}"), recorded, asked);
                }
            }
            (Some(Value::Array(recorded)), Some(Value::Array(asked))) => {
                for nth in 0..recorded.len().max(asked.len()) {
                    self.below(path, &format!("[{nth}]"), recorded.get(nth), asked.get(nth));
                }
            }
            (recorded, asked) if recorded == asked => {}
            (recorded, asked) => self.found(path, recorded, asked),
        }
    }

    fn below(
        &mut self,
        path: &mut String,
        step: &str,
        recorded: Option<&Value>,
        asked: Option<&Value>,
    ) {
        let length = path.len();
        path.push_str(step);
        self.compare(path, recorded, asked);
        path.truncate(length);
    }

    fn found(&mut self, path: &str, recorded: Option<&Value>, asked: Option<&Value>) {
        self.count += 1;
        if self.count > 1 {
            return;
        }
        let [recorded, asked] = [recorded, asked].map(text);
        let start = common_start(&recorded, &asked);
        let end = common_start_of(recorded.bytes().rev(), asked.bytes().rev());
        self.common = start + end;
        let [recorded, asked] = [recorded, asked].map(|it| shown(&it, start));
        self.first = format!("at `{path}`: recorded {recorded}, asked {asked}");
    }
}

fn text(value: Option<&Value>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

/// How many bytes two texts have in common at their start, up to a character's.
fn common_start(a: &str, b: &str) -> usize {
    let mut length = common_start_of(a.bytes(), b.bytes());
    while !a.is_char_boundary(length) || !b.is_char_boundary(length) {
        length -= 1;
    }
    length
}

fn common_start_of(a: impl Iterator<Item = u8>, b: impl Iterator<Item = u8>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).count()
}

/// The part of a text around a place in it, in quotes.
fn shown(text: &str, at: usize) -> String {
    let before = text[..at].chars().count();
    let skipped = before.saturating_sub(SHOWN / 2);
    let part: String = text.chars().skip(skipped).take(SHOWN).collect();
    let more = text.chars().count() > skipped + SHOWN;
    let [left, right] = [skipped > 0, more].map(|it| if it { "…" } else { "" });
    format!("{:?}", format!("{left}{part}{right}"))
}
