//! Stores each part that several calls of a recording share only once.
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

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use serde_json::{Map, Value, json};

const SAME: &str = "$same";
const LINES: &str = "$lines";

const MODEL: &str = "model";

/// Shorter parts are not numbered, because a reference would hardly be shorter.
const MIN_BYTES: usize = 48;

/// Maximum number of bytes to which the references of a call can expand. Without a limit, a small file could exhaust
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
    /// Replaces parts that have occurred before with references, and numbers all other parts. Returns `None` if there
    /// is nothing to replace, or if the value cannot be packed because it contains a key that marks references or
    /// exceeds the limits of [`unpack`](Self::unpack).
    pub(super) fn pack(&mut self, value: &Value) -> Option<Value> {
        if contains_mark(value) || depth(value) > MAX_DEPTH || is_too_large(value) {
            self.learn(value);
            return None;
        }
        let packed = self.packed(value);
        (packed != *value).then_some(packed)
    }

    fn packed(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => match self.find_item(value) {
                Ok(number) => json!({ SAME: number }),
                Err(json) => {
                    let packed = self.packed_text(text);
                    self.add_new_item(value, json);
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
        let mut entries: Vec<PackedEntry<Value>> = Vec::new();
        for item in items {
            match self.find_item(item) {
                Ok(number) => PackedEntry::add_reference(&mut entries, number),
                Err(json) => {
                    entries.push(PackedEntry::New(self.packed(item)));
                    self.add_new_item(item, json);
                }
            }
        }
        let entry = |it: PackedEntry<Value>| match it {
            PackedEntry::New(item) => item,
            PackedEntry::Range(first, last) => json!({ SAME: numbers(first, last) }),
        };
        entries.into_iter().map(entry).collect()
    }

    fn packed_text(&mut self, text: &str) -> Value {
        let mut entries: Vec<PackedEntry<String>> = Vec::new();
        for line in text.split('\n') {
            match (self.line_numbers.get(line).copied(), entries.last_mut()) {
                (Some(number), _) => PackedEntry::add_reference(&mut entries, number),
                (None, Some(PackedEntry::New(text))) => {
                    text.push('\n');
                    text.push_str(line);
                }
                (None, _) => entries.push(PackedEntry::New(line.to_owned())),
            }
            self.add_line(line);
        }
        if entries.iter().all(|it| matches!(it, PackedEntry::New(_))) {
            return text.into();
        }
        let entry = |it: PackedEntry<String>| match it {
            PackedEntry::New(text) => json!(text),
            PackedEntry::Range(first, last) => numbers(first, last),
        };
        json!({ LINES: entries.into_iter().map(entry).collect::<Value>() })
    }

    /// Replaces references with the parts that they refer to, and numbers all new parts. Fails if the result would be
    /// too large or too deeply nested.
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

    /// Returns the number of an item. If it has none, returns its JSON as the error.
    fn find_item(&self, item: &Value) -> Result<usize, String> {
        let json = item.to_string();
        self.item_numbers.get(&json).copied().ok_or(json)
    }

    fn add_item(&mut self, item: &Value) {
        if let Err(json) = self.find_item(item) {
            self.add_new_item(item, json);
        }
    }

    /// Assigns a number to an item with the given JSON, unless the JSON is short or already has one. A string in a list
    /// may already have a number from being packed on its own.
    fn add_new_item(&mut self, item: &Value, json: String) {
        if json.len() >= MIN_BYTES
            && let Entry::Vacant(place) = self.item_numbers.entry(json)
        {
            let (bytes, depth) = (place.key().len(), depth(item));
            place.insert(self.items.len());
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
    /// Total size of the parts that have replaced references so far, in bytes.
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
enum PackedEntry<T> {
    New(T),
    Range(usize, usize),
}

impl<T> PackedEntry<T> {
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

/// Returns whether the JSON of a value has more than [`MAX_EXPANDED_BYTES`] bytes.
fn is_too_large(value: &Value) -> bool {
    max_json_bytes(value) > MAX_EXPANDED_BYTES && value.to_string().len() > MAX_EXPANDED_BYTES
}

/// Returns an upper bound on the size of a value's JSON in bytes, without creating the JSON.
fn max_json_bytes(value: &Value) -> usize {
    // A byte of a string becomes at most `\u0000`, and a value is followed by at most one comma or colon.
    let text = |it: &str| 6 * it.len() + 3;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 32,
        Value::String(it) => text(it),
        Value::Array(items) => 3 + items.iter().map(max_json_bytes).sum::<usize>(),
        Value::Object(fields) => {
            3 + fields.iter().map(|(name, it)| text(name) + max_json_bytes(it)).sum::<usize>()
        }
    }
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
mod tests;
