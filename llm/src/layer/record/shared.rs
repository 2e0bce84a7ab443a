//! Stores the parts that the calls of a recording have in common only once.
//!
//! Each call of a conversation repeats the messages before it, so a file with complete calls would grow with the square
//! of the number of messages. Parts of calls and outcomes are therefore numbered when they first occur, and later calls
//! refer to them by number:
//!
//! * Items are the elements of lists and all strings. `{"$same": 3}` stands for one item, and in a list,
//!   `{"$same": [3, 5]}` stands for the items 3 to 5.
//! * Lines are the lines of strings, without line feeds. `{"$lines": ["new text", [3, 5], 9]}` stands for a string with
//!   lines of new text, the lines 3 to 5 and line 9.
//!
//! A field with the name `model` is never replaced, so that programs can read the model of a call without resolving
//! references.

use std::{collections::HashMap, sync::Arc};

use serde_json::{Map, Value, json};

const SAME: &str = "$same";
const LINES: &str = "$lines";

const MODEL: &str = "model";

/// Shorter parts are not numbered, because a reference would hardly be shorter.
const MIN_BYTES: usize = 48;

/// Maximum number of bytes that the references of a call can stand for. Without a limit, a small file could exhaust
/// the memory, because each call can refer several times to parts of the one before.
const MAX_EXPANDED_BYTES: usize = 64 << 20;

/// Maximum depth of nested lists and objects, because values are traversed recursively.
const MAX_DEPTH: usize = 128;

/// The numbered parts of a recording. Writers and readers number the same parts, because they see the same calls and
/// outcomes in the same order.
#[derive(Debug, Default)]
pub(super) struct SharedParts {
    items: Vec<Item>,
    /// Number of each item. The key is the JSON of the item.
    item_numbers: HashMap<String, usize>,
    lines: Vec<Arc<str>>,
    line_numbers: HashMap<Arc<str>, usize>,
}

/// A numbered item.
#[derive(Debug)]
struct Item {
    value: Value,
    /// Size of the item as JSON.
    bytes: usize,
    depth: usize,
}

impl SharedParts {
    /// Replaces parts that have occurred before by references, and numbers all others. Returns `None` if there is
    /// nothing to replace, or if the value cannot be packed because it contains a key that marks references or exceeds
    /// the limits of [`unpack`](Self::unpack).
    pub(super) fn pack(&mut self, value: &Value) -> Option<Value> {
        if contains_mark(value)
            || depth(value) > MAX_DEPTH
            || value.to_string().len() > MAX_EXPANDED_BYTES
        {
            self.learn(value);
            return None;
        }
        let packed = self.packed(value);
        (packed != *value).then_some(packed)
    }

    fn packed(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => match self.item_number(value) {
                Some(number) => json!({ SAME: number }),
                None => {
                    let packed = self.packed_text(text);
                    self.add_item(value);
                    packed
                }
            },
            Value::Array(items) => self.packed_items(items),
            Value::Object(fields) => {
                let field = |(name, it): (&String, &Value)| {
                    if name == MODEL {
                        self.learn(it);
                        return (name.clone(), it.clone());
                    }
                    (name.clone(), self.packed(it))
                };
                Value::Object(fields.iter().map(field).collect::<Map<_, _>>())
            }
            other => other.clone(),
        }
    }

    fn packed_items(&mut self, items: &[Value]) -> Value {
        let mut entries: Vec<Entry<Value>> = Vec::new();
        for item in items {
            let known = self.item_number(item);
            if let Some(number) = known {
                Entry::add_reference(&mut entries, number);
                continue;
            }
            entries.push(Entry::New(self.packed(item)));
            self.add_item(item);
        }
        let entry = |it: Entry<Value>| match it {
            Entry::New(item) => item,
            Entry::Range(first, last) => json!({ SAME: numbers(first, last) }),
        };
        entries.into_iter().map(entry).collect()
    }

    fn packed_text(&mut self, text: &str) -> Value {
        let mut entries: Vec<Entry<String>> = Vec::new();
        for line in text.split('\n') {
            match (self.line_numbers.get(line).copied(), entries.last_mut()) {
                (Some(number), _) => Entry::add_reference(&mut entries, number),
                (None, Some(Entry::New(text))) => {
                    text.push('\n');
                    text.push_str(line);
                }
                (None, _) => entries.push(Entry::New(line.to_owned())),
            }
            self.add_line(line);
        }
        if entries.iter().all(|it| matches!(it, Entry::New(_))) {
            return text.into();
        }
        let entry = |it: Entry<String>| match it {
            Entry::New(text) => json!(text),
            Entry::Range(first, last) => numbers(first, last),
        };
        json!({ LINES: entries.into_iter().map(entry).collect::<Value>() })
    }

    /// Replaces references by the parts that they refer to, and numbers all new parts. Fails if the result would be too
    /// large or too deeply nested.
    pub(super) fn unpack(&mut self, value: Value) -> Result<Value, String> {
        self.unpacked(value, &mut Expansion::default())
    }

    fn unpacked(&mut self, value: Value, expansion: &mut Expansion) -> Result<Value, String> {
        match value {
            Value::Array(entries) => {
                expansion.depth += 1;
                let items = self.unpacked_items(entries, expansion)?;
                expansion.depth -= 1;
                Ok(items)
            }
            Value::Object(mut fields) => {
                if let Some(number) = fields.get(SAME) {
                    let item = range(number).and_then(|it| self.items.get(it.0));
                    return expansion.add_item(item.ok_or_else(|| unknown(number))?);
                }
                if let Some(entries) = fields.remove(LINES) {
                    let text = Value::String(self.unpacked_text(&entries, expansion)?);
                    self.add_item(&text);
                    return Ok(text);
                }
                expansion.depth += 1;
                let fields =
                    fields.into_iter().map(|(name, it)| Ok((name, self.unpacked(it, expansion)?)));
                let fields = fields.collect::<Result<_, String>>()?;
                expansion.depth -= 1;
                Ok(Value::Object(fields))
            }
            other => {
                self.learn(&other);
                Ok(other)
            }
        }
    }

    fn unpacked_items(
        &mut self,
        entries: Vec<Value>,
        expansion: &mut Expansion,
    ) -> Result<Value, String> {
        let mut items = Vec::new();
        for entry in entries {
            if let Some(numbers) = entry.get(SAME) {
                let known = range(numbers).and_then(|it| self.items.get(it.0..=it.1));
                for item in known.ok_or_else(|| unknown(numbers))? {
                    items.push(expansion.add_item(item)?);
                }
                continue;
            }
            let item = self.unpacked(entry, expansion)?;
            self.add_item(&item);
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn unpacked_text(
        &mut self,
        entries: &Value,
        expansion: &mut Expansion,
    ) -> Result<String, String> {
        let mut lines: Vec<Arc<str>> = Vec::new();
        for entry in entries.as_array().ok_or_else(|| unknown(entries))? {
            if let Some(new) = entry.as_str() {
                new.split('\n').for_each(|it| self.add_line(it));
                lines.push(new.into());
                continue;
            }
            let known = range(entry).and_then(|it| self.lines.get(it.0..=it.1));
            for line in known.ok_or_else(|| unknown(entry))? {
                expansion.add_bytes(line.len())?;
                lines.push(line.clone());
            }
        }
        Ok(lines.join("\n"))
    }

    /// Numbers the parts of a value that is stored without references.
    pub(super) fn learn(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                text.split('\n').for_each(|it| self.add_line(it));
                self.add_item(value);
            }
            Value::Array(items) => {
                for item in items {
                    self.learn(item);
                    self.add_item(item);
                }
            }
            Value::Object(fields) => fields.values().for_each(|it| self.learn(it)),
            _ => {}
        }
    }

    fn item_number(&self, item: &Value) -> Option<usize> {
        self.item_numbers.get(&item.to_string()).copied()
    }

    fn add_item(&mut self, item: &Value) {
        let json = item.to_string();
        if json.len() >= MIN_BYTES && !self.item_numbers.contains_key(&json) {
            let (bytes, depth) = (json.len(), depth(item));
            self.item_numbers.insert(json, self.items.len());
            self.items.push(Item { value: item.clone(), bytes, depth });
        }
    }

    fn add_line(&mut self, line: &str) {
        if line.len() >= MIN_BYTES && !self.line_numbers.contains_key(line) {
            let line: Arc<str> = line.into();
            self.line_numbers.insert(line.clone(), self.lines.len());
            self.lines.push(line);
        }
    }
}

/// Size and nesting of a call whose references are being replaced.
#[derive(Default)]
struct Expansion {
    /// Number of bytes that references have been replaced by so far.
    bytes: usize,
    /// Number of lists and objects that enclose the current position.
    depth: usize,
}

impl Expansion {
    /// Returns the value of a referenced item, unless it exceeds a limit.
    fn add_item(&mut self, item: &Item) -> Result<Value, String> {
        self.add_bytes(item.bytes)?;
        if self.depth + item.depth > MAX_DEPTH {
            return Err(format!(
                "the call is nested deeper than {MAX_DEPTH} levels when its references are replaced"
            ));
        }
        Ok(item.value.clone())
    }

    fn add_bytes(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes += bytes;
        if self.bytes > MAX_EXPANDED_BYTES {
            let mib = MAX_EXPANDED_BYTES >> 20;
            return Err(format!(
                "the call is larger than {mib} MiB when its references are replaced"
            ));
        }
        Ok(())
    }
}

/// An entry of a packed list or string: a new part, or the numbers of the first and the last part of a range.
enum Entry<T> {
    New(T),
    Range(usize, usize),
}

impl<T> Entry<T> {
    /// Adds a reference, which extends the last range if possible.
    fn add_reference(entries: &mut Vec<Self>, number: usize) {
        match entries.last_mut() {
            Some(Self::Range(_, last)) if *last + 1 == number => *last = number,
            _ => entries.push(Self::Range(number, number)),
        }
    }
}

/// Returns the JSON of a range of numbers: one number, or the first and the last one.
fn numbers(first: usize, last: usize) -> Value {
    if first == last { json!(first) } else { json!([first, last]) }
}

/// Reads a range of numbers. Returns `None` if it is invalid.
fn range(numbers: &Value) -> Option<(usize, usize)> {
    let number = |it: &Value| usize::try_from(it.as_u64()?).ok();
    let one = || number(numbers).map(|it| (it, it));
    let several = || Some((number(numbers.get(0)?)?, number(numbers.get(1)?)?));
    one().or_else(several).filter(|it| it.0 <= it.1)
}

fn unknown(reference: &Value) -> String {
    format!("{reference} does not refer to parts of earlier calls")
}

/// Returns the number of nested lists and objects.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

fn contains_mark(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(contains_mark),
        Value::Object(fields) => {
            fields.contains_key(SAME)
                || fields.contains_key(LINES)
                || fields.values().any(contains_mark)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: usize) -> String {
        format!("line {n} of a long conversation between two people who disagree")
    }

    /// Packs values one after the other and checks that unpacking restores them. Returns the stored values.
    fn check(values: &[Value]) -> Vec<Value> {
        let (mut writer, mut reader) = (SharedParts::default(), SharedParts::default());
        let pack = |value: &Value| {
            let packed = writer.pack(value);
            let stored = packed.clone().unwrap_or_else(|| value.clone());
            let read: Value = serde_json::from_str(&stored.to_string()).unwrap();
            match packed {
                Some(_) => assert_eq!(reader.unpack(read).as_ref(), Ok(value)),
                None => reader.learn(&read),
            }
            stored
        };
        values.iter().map(pack).collect()
    }

    #[test]
    fn repeated_messages_are_stored_once() {
        let message = |n: usize| json!({ "role": "user", "text": line(n) });
        let call = |n: usize| {
            let messages: Value = (0..n).map(message).collect();
            json!({ "messages": messages, "system": line(99), "temperature": 0.5 })
        };
        let stored = check(&[call(2), call(3), call(3)]);
        assert_eq!(stored[0], call(2));
        // Each message has two items: its text and the message itself.
        assert_eq!(stored[1]["messages"][0], json!({ SAME: 1 }));
        assert_eq!(stored[1]["messages"].as_array().unwrap().len(), 3);
        assert_eq!(stored[1]["messages"][2], message(2));
        assert!(stored[1]["system"][SAME].is_u64(), "{}", stored[1]);
        assert!(stored[2].to_string().len() < 140, "{}", stored[2]);
    }

    #[test]
    fn repeated_lines_of_growing_texts_are_stored_once() {
        let text = |n: usize| json!((0..n).map(|it| line(it) + "\n").collect::<String>() + "go\n");
        let stored = check(&[text(2), text(3), text(3), json!(line(2))]);
        assert_eq!(stored[1], json!({ LINES: [[0, 1], line(2) + "\ngo\n"] }));
        assert_eq!(stored[2], json!({ SAME: 1 }));
        // The line ended the first time with a line feed.
        assert_eq!(stored[3], json!({ LINES: [2] }));
    }

    #[test]
    fn parts_can_repeat_within_one_value() {
        check(&[
            json!([line(1), line(1), line(2)].join("\n\n")),
            json!([line(2), line(1) + "\n", "\n", "", line(2), [line(3)], [line(3)], 7, null]),
            json!({ "a": [line(3)], "b": line(3), "c": "short" }),
        ]);
    }

    #[test]
    fn values_with_a_mark_are_not_packed() {
        let value = json!({ "schema": { LINES: [[0, 1]] }, "text": line(1) });
        let mut parts = SharedParts::default();
        assert_eq!(parts.pack(&value), None);
        assert_eq!(parts.pack(&json!(line(1))), Some(json!({ SAME: 0 })));
    }

    #[test]
    fn model_is_never_replaced() {
        let call =
            |n: usize| json!({ "model": { "model": line(0), "provider": line(1) }, "x": line(n) });
        let stored = check(&[call(2), call(2), call(0), call(1)]);
        assert!(stored.iter().all(|it| it["model"] == call(0)["model"]), "{stored:?}");
        assert!(stored[1..].iter().all(|it| it["x"][SAME].is_u64()), "{stored:?}");
    }

    #[test]
    fn expansion_of_references_is_limited_in_size() {
        let mut parts = SharedParts::default();
        parts.learn(&json!("x".repeat(1 << 20)));
        // Item 0 has 1 MiB, and each further item contains the one before twice.
        let double = |parts: &mut SharedParts, n: usize| {
            parts.unpack(json!([[{ SAME: n }, { SAME: [n, n] }]]))
        };
        for n in 0..5 {
            assert!(double(&mut parts, n).is_ok(), "{n}");
        }
        let problem = "the call is larger than 64 MiB when its references are replaced";
        assert_eq!(double(&mut parts, 5), Err(problem.to_owned()));

        let mut parts = SharedParts::default();
        parts.learn(&json!("x".repeat(1 << 20)));
        assert!(parts.unpack(json!({ LINES: vec![0; 63] })).is_ok());
        assert_eq!(parts.unpack(json!({ LINES: vec![0; 65] })), Err(problem.to_owned()));
    }

    #[test]
    fn expansion_of_references_is_limited_in_depth() {
        let mut parts = SharedParts::default();
        parts.learn(&json!(line(0)));
        // Each call adds an item that is one level deeper than the one before.
        let deeper = |n: usize| parts.unpack(json!([[{ SAME: n }]]));
        let results: Vec<_> = (0..128).map(deeper).collect();
        assert!(results[..127].iter().all(Result::is_ok));
        let problem = "the call is nested deeper than 128 levels when its references are replaced";
        assert_eq!(results[127], Err(problem.to_owned()));
    }

    #[test]
    fn invalid_references_are_errors() {
        for reference in [
            json!({ LINES: [[0, 0]] }),
            json!({ LINES: [[1, 0]] }),
            json!({ LINES: [7] }),
            json!({ LINES: [null] }),
            json!({ LINES: "x" }),
            json!({ SAME: 0 }),
            json!({ SAME: -1 }),
            json!([{ SAME: [0, 0] }]),
            json!([{ SAME: 0 }]),
        ] {
            assert!(SharedParts::default().unpack(reference.clone()).is_err(), "{reference}");
        }
    }
}
