//! Field metadata, sets of fields, and field errors.

use std::borrow::Cow;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Name of the reducer of fields without `#[reduce]`.
pub(crate) const DEFAULT_REDUCER: &str = "last";

/// Metadata of one field of a state: its name, and the rules for writing, storing and exposing it.
#[derive(Clone, Debug)]
pub struct Field {
    /// Name of the field, as used in checkpoints and streams.
    pub name: Cow<'static, str>,
    /// Name of the field's reducer: `last`, another built-in reducer, or `custom`. Stored in checkpoints, so that a
    /// changed reducer is noticed.
    pub reducer: &'static str,
    /// Whether several tasks of one step may write the field.
    pub many_writers: bool,
    /// How long a written value is kept.
    pub lifetime: Lifetime,
    /// Whether a run's input may set the field.
    pub input: bool,
    /// Whether the field is part of a run's output. The `values` stream contains every field regardless of this flag,
    /// as in LangGraph.
    pub output: bool,
}

impl Field {
    /// Creates a persistent field that accepts one writer per step and is part of both input and output.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            reducer: DEFAULT_REDUCER,
            many_writers: false,
            lifetime: Lifetime::Persistent,
            input: true,
            output: true,
        }
    }

    /// Sets the name of the field's reducer.
    #[must_use]
    pub const fn reducer(mut self, name: &'static str) -> Self {
        self.reducer = name;
        self
    }

    /// Sets whether several tasks of one step may write the field.
    #[must_use]
    pub const fn many_writers(mut self, many: bool) -> Self {
        self.many_writers = many;
        self
    }

    /// Sets how long a written value is kept.
    #[must_use]
    pub const fn lifetime(mut self, lifetime: Lifetime) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// Sets whether the field is part of the input and of the output.
    #[must_use]
    pub const fn visible(mut self, input: bool, output: bool) -> Self {
        self.input = input;
        self.output = output;
        self
    }
}

/// How long a written value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// The value is kept until the next write and is stored in checkpoints.
    Persistent,
    /// The value is kept for one step. A step that does not write the field clears it.
    Step,
    /// The value is kept until the run ends and is never stored in checkpoints.
    Run,
}

/// A set of fields of one state. Each field is identified by its index.
///
/// The first 64 fields are stored inline; only states with more fields allocate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    low: u64,
    #[expect(
        clippy::box_collection,
        reason = "boxing keeps the set at two words, and the pointer is almost always null"
    )]
    high: Option<Box<Vec<u64>>>,
}

impl FieldSet {
    /// Adds a field. Returns `true` if the set did not contain it.
    #[inline]
    pub fn insert(&mut self, field: usize) -> bool {
        let word = self.word_mut(field / 64);
        let bit = 1 << (field % 64);
        let fresh = *word & bit == 0;
        *word |= bit;
        fresh
    }

    /// Returns whether the set contains the field.
    #[inline]
    pub fn contains(&self, field: usize) -> bool {
        self.word(field / 64) & (1 << (field % 64)) != 0
    }

    /// Returns whether the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.low == 0 && self.high().iter().all(|it| *it == 0)
    }

    /// Adds all fields of another set.
    pub fn union_with(&mut self, other: &Self) {
        self.low |= other.low;
        for (index, word) in other.high().iter().enumerate() {
            *self.word_mut(index + 1) |= word;
        }
    }

    /// Returns whether the two sets have a field in common.
    #[inline]
    pub fn intersects(&self, other: &Self) -> bool {
        self.low & other.low != 0 || self.high().iter().zip(other.high()).any(|(a, b)| a & b != 0)
    }

    /// Iterates over the fields in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..=self.high().len()).flat_map(|index| {
            let mut word = self.word(index);
            std::iter::from_fn(move || {
                let bit = word.trailing_zeros() as usize;
                (word != 0).then(|| {
                    word &= word - 1;
                    index * 64 + bit
                })
            })
        })
    }

    /// Removes a field.
    pub(crate) fn remove(&mut self, field: usize) {
        *self.word_mut(field / 64) &= !(1 << (field % 64));
    }

    #[inline]
    fn high(&self) -> &[u64] {
        self.high.as_deref().map_or(&[], Vec::as_slice)
    }

    #[inline]
    fn word(&self, index: usize) -> u64 {
        match index {
            0 => self.low,
            _ => self.high().get(index - 1).copied().unwrap_or(0),
        }
    }

    #[inline]
    fn word_mut(&mut self, index: usize) -> &mut u64 {
        if index == 0 {
            return &mut self.low;
        }
        self.high_word_mut(index)
    }

    #[cold]
    fn high_word_mut(&mut self, index: usize) -> &mut u64 {
        let high = self.high.get_or_insert_default();
        if high.len() < index {
            high.resize(index, 0);
        }
        &mut high[index - 1]
    }
}

impl FromIterator<usize> for FieldSet {
    fn from_iter<I: IntoIterator<Item = usize>>(fields: I) -> Self {
        let mut set = Self::default();
        for field in fields {
            set.insert(field);
        }
        set
    }
}

/// A value that can be stored in a checkpoint. Implemented for all types that serde can serialise and deserialise.
#[diagnostic::on_unimplemented(
    message = "a field of type `{Self}` cannot be stored in checkpoints",
    label = "does not implement serde's `Serialize` and `Deserialize`",
    note = "add `#[derive(serde::Serialize, serde::Deserialize)]` to `{Self}`, or exclude the field from checkpoints with `#[reduce(untracked)]`"
)]
pub trait FieldValue: Sized {
    /// Serialises the value of a field to JSON.
    #[doc(hidden)]
    fn to_value(&self, field: &str) -> Result<Option<Value>, FieldError>;

    /// Deserialises the value of a field from JSON.
    #[doc(hidden)]
    fn from_value(field: &str, value: Value) -> Result<Self, FieldError>;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> FieldValue for T {
    fn to_value(&self, field: &str) -> Result<Option<Value>, FieldError> {
        serde_json::to_value(self).map(Some).map_err(|error| FieldError::encode(field, &error))
    }

    fn from_value(field: &str, value: Value) -> Result<Self, FieldError> {
        decode(field, value)
    }
}

/// A write to one field, as JSON.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct FieldWrite {
    /// Name of the field.
    pub field: String,
    /// The written value.
    pub value: Value,
    /// Whether the value replaces the field's value instead of being reduced into it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overwrite: bool,
}

/// The error returned when the value of a field cannot be read, written or stored.
#[derive(Clone, thiserror::Error)]
#[error("field `{path}`: {problem}")]
pub struct FieldError {
    /// Path of the offending value, starting with the field name, such as `messages[1].text`. `*` means the whole
    /// state.
    pub path: String,
    /// Description of the problem.
    pub problem: String,
}

crate::readable_debug!(FieldError);

impl FieldError {
    /// Creates an error for the value at `path`.
    pub fn new(path: impl Into<String>, problem: impl std::fmt::Display) -> Self {
        Self { path: path.into(), problem: problem.to_string() }
    }

    pub(crate) fn encode(field: &str, error: &serde_json::Error) -> Self {
        Self::new(field, format_args!("the value cannot be serialised to JSON: {error}"))
    }
}

/// Deserialises a value. The error contains the path of the part that does not match the type.
#[expect(clippy::needless_pass_by_value, reason = "callers have no use for the value afterwards")]
pub(crate) fn decode<T: DeserializeOwned>(field: &str, value: Value) -> Result<T, FieldError> {
    T::deserialize(&value).map_err(|error| {
        FieldError::new(
            error_path::<T>(field, &value),
            format_args!(
                "the stored value is {}, but the type of the field is `{}`: {error}; if the type has changed, \
                 increase the state's version and convert stored values with `Migrations::retype`",
                json_type(&value),
                std::any::type_name::<T>(),
            ),
        )
    })
}

/// Returns the path of the part that does not match the type.
///
/// Deserialises the value again with path tracking, which is slower.
#[cold]
fn error_path<T: DeserializeOwned>(field: &str, value: &Value) -> String {
    match serde_path_to_error::deserialize::<_, T>(value) {
        Err(error) if error.path().iter().len() > 0 => {
            let inside = error.path().to_string();
            let dot = if inside.starts_with('[') { "" } else { "." };
            format!("{field}{dot}{inside}")
        }
        _ => field.to_owned(),
    }
}

/// Returns the name of a value's JSON type with an article, such as "an array", for error messages.
pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{FieldSet, decode};

    #[test]
    fn set_contains_fields_below_and_above_64() {
        let set: FieldSet = [3, 63, 64, 200].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [3, 63, 64, 200]);
        assert!(set.contains(200) && !set.contains(201));
    }

    #[test]
    fn union_and_intersection_work_for_sets_of_different_length() {
        let mut small: FieldSet = [1].into_iter().collect();
        let large: FieldSet = [130].into_iter().collect();
        assert!(!small.intersects(&large));
        small.union_with(&large);
        assert!(small.intersects(&large) && small.contains(1));
    }

    #[test]
    fn decode_error_contains_the_path_of_the_mismatch() {
        #[derive(Debug, serde::Deserialize)]
        struct Message {
            #[expect(dead_code, reason = "only deserialised, never read")]
            text: String,
        }
        let value = json!([{"text": "a"}, {"text": 2}]);
        let error = decode::<Vec<Message>>("messages", value).unwrap_err();
        assert_eq!(error.path, "messages[1].text");
        let error = decode::<Message>("note", json!({"text": null})).unwrap_err();
        assert_eq!(error.path, "note.text");
        assert_eq!(decode::<u8>("age", json!("x")).unwrap_err().path, "age");
    }
}
