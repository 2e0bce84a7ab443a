//! Call keys, which determine whether two calls are identical.
//!
//! Two calls are identical if they send the same request to the same model. Settings for the provider's prompt
//! cache and the ids of messages do not affect the response, so they are not part of the key.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    str::FromStr,
    sync::Mutex,
};

use hex::FromHex;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::lock::lock;
use crate::{ModelId, Request};

/// Hash of a call's model and request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key([u8; 32]);

impl Key {
    /// Computes the key of a call from its [serialised](serialise) JSON.
    pub(super) fn of_json(json: &[u8]) -> Self {
        Self(Sha256::digest(json).into())
    }
}

#[cfg(feature = "graph")]
impl Key {
    /// Computes the key of a request to a model.
    pub(super) fn of(model: &ModelId, request: &Request) -> Self {
        Self::of_json(&serialise(&call_json(model, request)))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl FromStr for Key {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = <[u8; 32]>::from_hex(text);
        bytes.map(Self).map_err(|_| "a call key must consist of 64 hexadecimal digits")
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
///
/// The fields are sorted by name. serde_json alone does not guarantee an order, because its `preserve_order` feature
/// changes the order of fields, and any crate in the program may enable that feature.
pub(super) fn call_json(model: &ModelId, request: &Request) -> Value {
    let mut request = serde_json::to_value(request).expect("a request has only string keys");
    if let Some(fields) = request.as_object_mut() {
        fields.remove("cache_key");
        fields.remove("cache_system");
    }
    let messages = request.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten().filter_map(Value::as_object_mut) {
        message.remove("cache");
        message.remove("id");
    }
    let model = serde_json::to_value(model).expect("two strings are valid JSON");
    // The map is built by hand, because `json!` would copy the request.
    let mut call = Value::Object(Map::from_iter([
        ("model".to_owned(), model),
        ("request".to_owned(), request),
    ]));
    call.sort_all_objects();
    call
}

/// Serialises the [JSON](call_json) of a call. Equal calls give equal bytes.
pub(super) fn serialise(call: &Value) -> Vec<u8> {
    serde_json::to_vec(call).expect("JSON can be serialised")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schema;

    #[test]
    fn call_json_is_sorted_and_compact() {
        let schema =
            serde_json::from_str(r#"{ "b": [1, 2.50, { "d": null, "c": "é" }], "a": {} }"#);
        let schema = Schema { name: "any".to_owned(), schema: schema.unwrap() };
        let call =
            call_json(&ModelId::new("p", "m"), &Request::new("?").cache_key("k").schema(schema));
        let expect = r#"{"model":{"model":"m","provider":"p"},"request":{"max_tokens":4096,"messages":[{"parts":[{"text":"?","type":"text"}],"role":"user"}],"schema":{"name":"any","schema":{"a":{},"b":[1,2.5,{"c":"é","d":null}]}}}}"#;
        assert_eq!(String::from_utf8(serialise(&call)).unwrap(), expect);
    }
}
