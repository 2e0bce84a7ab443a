//! What the engine knows of a field, sets of fields, and errors that name one.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// A field of a state: its name and the rules that hold for it.
#[derive(Clone, Debug)]
pub struct Field {
    /// The field's name, as it stands in checkpoints and streams.
    pub name: Cow<'static, str>,
    /// Whether several tasks of one step may write it.
    pub many_writers: bool,
    /// How long a written value stays.
    pub lifetime: Lifetime,
    /// Whether a run's input may set it.
    pub input: bool,
    /// Whether it is part of a run's output. The stream of values shows every field, as LangGraph's does.
    pub output: bool,
}

impl Field {
    /// A field that one task a step may write, that is kept, and that is part of input and output.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            many_writers: false,
            lifetime: Lifetime::Kept,
            input: true,
            output: true,
        }
    }

    /// Lets several tasks of one step write the field.
    #[must_use]
    pub const fn many_writers(mut self, many: bool) -> Self {
        self.many_writers = many;
        self
    }

    /// Sets how long a written value stays.
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

/// How long the value of a field stays once it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Until it is written again; checkpoints hold it.
    Kept,
    /// One step: a step that does not write the field clears it.
    Step,
    /// As long as the run: checkpoints never hold it.
    Run,
}

/// A set of fields of one state, by index.
///
/// The first 64 fields need no memory of their own, which covers nearly every state there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    low: u64,
    #[expect(
        clippy::box_collection,
        reason = "a pointer that is mostly null keeps the set at two words"
    )]
    high: Option<Box<Vec<u64>>>,
}

impl FieldSet {
    /// Adds a field; `true` if it was not in the set.
    #[inline]
    pub fn insert(&mut self, field: usize) -> bool {
        let word = self.word_mut(field / 64);
        let bit = 1 << (field % 64);
        let fresh = *word & bit == 0;
        *word |= bit;
        fresh
    }

    /// Whether the field is in the set.
    #[inline]
    pub fn contains(&self, field: usize) -> bool {
        self.word(field / 64) & (1 << (field % 64)) != 0
    }

    /// Whether the set is empty.
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

    /// Whether the two sets share a field.
    #[inline]
    pub fn intersects(&self, other: &Self) -> bool {
        self.low & other.low != 0 || self.high().iter().zip(other.high()).any(|(a, b)| a & b != 0)
    }

    /// The fields in ascending order.
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

/// A field whose value cannot be written, read or stored.
#[derive(Clone, Debug, thiserror::Error)]
#[error("field `{path}`: {problem}")]
pub struct FieldError {
    /// The field, and the way to the place inside it.
    pub path: String,
    /// What is wrong with it.
    pub problem: String,
}

impl FieldError {
    /// An error of a field, in words.
    pub fn new(path: impl Into<String>, problem: impl std::fmt::Display) -> Self {
        Self { path: path.into(), problem: problem.to_string() }
    }

    pub(crate) fn encode(field: &str, error: &serde_json::Error) -> Self {
        Self::new(field, format_args!("the value cannot be written as JSON: {error}"))
    }
}

/// Decodes a value, naming the field and the place inside it where it does not fit.
#[expect(clippy::needless_pass_by_value, reason = "a decoded value is not needed any more")]
pub(crate) fn decode<T: DeserializeOwned>(field: &str, value: Value) -> Result<T, FieldError> {
    T::deserialize(&value).map_err(|error| {
        FieldError::new(
            path_of_fault::<T>(field, &value),
            format_args!(
                "the stored value does not fit the field's type: {error}; \
                 if the type has changed, raise the state's version and add a migration"
            ),
        )
    })
}

/// Decodes once more, more slowly, to learn where the fault lies.
#[cold]
fn path_of_fault<T: DeserializeOwned>(field: &str, value: &Value) -> String {
    match serde_path_to_error::deserialize::<_, T>(value) {
        Err(error) if error.path().iter().len() > 0 => {
            let inside = error.path().to_string();
            let dot = if inside.starts_with('[') { "" } else { "." };
            format!("{field}{dot}{inside}")
        }
        _ => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{FieldSet, decode};

    #[test]
    fn a_set_holds_what_was_inserted_on_both_sides_of_the_first_word() {
        let set: FieldSet = [3, 63, 64, 200].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [3, 63, 64, 200]);
        assert!(set.contains(200) && !set.contains(201));
    }

    #[test]
    fn sets_of_different_length_unite_and_intersect() {
        let mut small: FieldSet = [1].into_iter().collect();
        let large: FieldSet = [130].into_iter().collect();
        assert!(!small.intersects(&large));
        small.union_with(&large);
        assert!(small.intersects(&large) && small.contains(1));
    }

    #[test]
    fn a_value_that_does_not_fit_is_named_by_its_path() {
        #[derive(Debug, serde::Deserialize)]
        struct Message {
            #[expect(dead_code, reason = "only read by serde")]
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
