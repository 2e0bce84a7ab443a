//! Call keys, which determine whether two calls are identical.
//!
//! Two calls are identical if they send the same request to the same model. Settings for the provider's prompt
//! cache do not affect the response, so they are not part of the key.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::{self, Write},
    str::FromStr,
    sync::Mutex,
};

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::lock::lock;
use crate::{ModelId, Request};

/// Hash of a call's model and request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key([u8; 32]);

impl Key {
    /// Computes the key of a call from the [canonical form](canonical) of its [JSON](call_json).
    pub(super) fn of_json(canonical: &[u8]) -> Self {
        Self(Sha256::digest(canonical).into())
    }
}

#[cfg(feature = "graph")]
impl Key {
    /// Computes the key of a request to a model.
    pub(super) fn of(model: &ModelId, request: &Request) -> Self {
        Self::of_json(&canonical(&call_json(model, request)))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.iter().flat_map(|it| [it >> 4, it & 15]);
        digits
            .map(|it| char::from(b"0123456789abcdef"[usize::from(it)]))
            .try_for_each(|it| f.write_char(it))
    }
}

impl FromStr for Key {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let problem = "a call key must consist of 64 hexadecimal digits";
        let mut bytes = [0; 32];
        if text.len() != 2 * bytes.len() {
            return Err(problem);
        }
        for (nth, byte) in bytes.iter_mut().enumerate() {
            let digits = text.get(2 * nth..2 * nth + 2).ok_or(problem)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| problem)?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// Assigns occurrence numbers to calls with the same key.
#[derive(Debug, Default)]
pub(super) struct Occurrences {
    // A std mutex suffices, because it is locked briefly and never across an await.
    counts: Mutex<HashMap<Key, Numbers>>,
}

#[derive(Debug, Default)]
struct Numbers {
    next: usize,
    released: BTreeSet<usize>,
}

impl Occurrences {
    /// Returns the lowest occurrence number, starting at 0, that no other call with this key has.
    pub(super) fn next(&self, key: Key) -> usize {
        let mut counts = lock(&self.counts);
        let numbers = counts.entry(key).or_default();
        numbers.released.pop_first().unwrap_or_else(|| {
            numbers.next += 1;
            numbers.next - 1
        })
    }

    /// Releases the number of a call that got no response. The next call with this key reuses the number.
    #[cfg(feature = "graph")]
    pub(super) fn release(&self, key: Key, nth: usize) {
        lock(&self.counts).entry(key).or_default().released.insert(nth);
    }
}

/// Returns the call as JSON, without the fields that do not affect the response.
pub(super) fn call_json(model: &ModelId, request: &Request) -> Value {
    let mut request = serde_json::to_value(request).expect("a request has only string keys");
    if let Some(fields) = request.as_object_mut() {
        fields.remove("cache_key");
        fields.remove("cache_system");
    }
    let messages = request.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten().filter_map(Value::as_object_mut) {
        message.remove("cache");
    }
    let model = serde_json::to_value(model).expect("two strings are valid JSON");
    // The map is built by hand, because `json!` would copy the request.
    Value::Object(Map::from_iter([("model".to_owned(), model), ("request".to_owned(), request)]))
}

/// Serialises JSON in a canonical form: without whitespace, and with fields sorted by name.
///
/// serde_json alone does not guarantee an order, because its `preserve_order` feature changes the order of fields, and
/// any crate in the program may enable that feature.
pub(super) fn canonical(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Array(items) => {
            out.push(b'[');
            for (n, item) in items.iter().enumerate() {
                separate(n, out);
                write_canonical(item, out);
            }
            out.push(b']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|it| it.0);
            out.push(b'{');
            for (n, (name, value)) in fields.into_iter().enumerate() {
                separate(n, out);
                write_plain(name, out);
                out.push(b':');
                write_canonical(value, out);
            }
            out.push(b'}');
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {
            write_plain(value, out);
        }
    }
}

fn separate(nth: usize, out: &mut Vec<u8>) {
    if nth > 0 {
        out.push(b',');
    }
}

fn write_plain(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("writing to a vector does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_json_is_sorted_and_compact() {
        let text = r#"{ "b": [1, 2.50, {}, []], "a": { "d": null, "c": "é \" \n" }, "": true }"#;
        let value: Value = serde_json::from_str(text).unwrap();
        let canonical = canonical(&value);
        let expect = r#"{"":true,"a":{"c":"é \" \n","d":null},"b":[1,2.5,{},[]]}"#;
        assert_eq!(String::from_utf8_lossy(&canonical), expect);
        assert_eq!(serde_json::from_slice::<Value>(&canonical).unwrap(), value);
    }
}
