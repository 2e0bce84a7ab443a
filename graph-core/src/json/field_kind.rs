//! Kinds of JSON fields, which determine how writes are combined with the current value.

use std::{cmp::Ordering, fmt, sync::Arc};

use serde_json::{Map, Number, Value};

use crate::{
    json::slot::{Decoded, JsonWrite, Slot},
    state::{
        change::Change,
        field::{FieldError, Lifetime, json_type},
        fold::{Delta, Fold},
    },
};

/// A reducer for JSON fields, implemented by another crate.
pub trait JsonReducer: fmt::Debug + Send + Sync {
    /// Returns the value of the field before its first write.
    fn initial_value(&self) -> Value;

    /// Folds a write into the field.
    ///
    /// Returns a change that a checkpoint can store instead of the whole value, or `None` to store the whole value. If
    /// the write is invalid, returns an error and leaves the field unchanged.
    fn fold(
        &self,
        field: ReducedField<'_>,
        write: ReducedWrite,
    ) -> Result<Option<Change>, FieldError>;
}

/// The field into which a [reducer](JsonReducer) folds a write.
#[derive(Debug)]
pub struct ReducedField<'a> {
    /// Name of the field.
    pub name: &'a str,
    /// The current value.
    pub value: &'a mut Value,
    /// A typed copy of the value, if the reducer keeps one. It spares nodes the work of decoding the value; see
    /// [`JsonInput::decoded`](crate::json::JsonInput::decoded). `None` after the value was replaced as a whole.
    pub decoded: &'a mut Option<Decoded>,
    /// Whether the returned change is used. If not, the reducer can return `None`.
    pub records_change: bool,
}

/// A write that a [reducer](JsonReducer) folds into a field.
#[derive(Debug)]
pub struct ReducedWrite {
    /// The written value.
    pub value: Value,
    /// A typed copy of the value, if the node [provides one](crate::json::JsonUpdate::write_decoded).
    pub decoded: Option<Decoded>,
}

impl PartialEq for dyn JsonReducer {
    /// Returns whether both are the same object.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(self, other)
    }
}

impl Eq for dyn JsonReducer {}

/// The kind of a field of a JSON state: its reducer, initial value and lifetime.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonFieldKind {
    /// Keeps the last value. Two writers in one step are a conflict.
    Last,
    /// Concatenates arrays. Initially empty.
    Append,
    /// Adds numbers. Initially 0.
    Sum,
    /// Keeps the greatest value. Initially 0.
    Max,
    /// Keeps the smallest value. Initially, the field has no value.
    Min,
    /// Merges objects; for equal keys, the later write wins. Initially empty.
    Merge,
    /// Concatenates strings. Initially empty.
    Concat,
    /// Replaces each item of the array whose key equals that of a written item, and appends written items with new
    /// keys. The string names the field that holds the key. Initially empty.
    Upsert(String),
    /// Keeps the last value written in a step. A step without a write clears the field.
    Any,
    /// Keeps the value for one step. Two writers in one step are a conflict.
    Ephemeral,
    /// Keeps the value until the run ends and never stores it in checkpoints. Two writers in one step are a conflict.
    Untracked,
    /// Collects the writes of one step into an array. A step without a write clears the field.
    Topic,
    /// Collects the writes of all steps into an array, like LangGraph's `Topic(accumulate=True)`.
    TopicAccumulate,
    /// Whether this is the last step that the run may take. The value is computed and is not part of the state.
    IsLastStep,
    /// Number of steps that the run may still take. The value is computed and is not part of the state.
    RemainingSteps,
    /// Combines writes with a reducer of another crate.
    Custom(Arc<dyn JsonReducer>),
}

impl JsonFieldKind {
    pub(super) fn is_computed(&self) -> bool {
        matches!(self, Self::IsLastStep | Self::RemainingSteps)
    }

    pub(super) fn allows_many_writers(&self) -> bool {
        !matches!(self, Self::Last | Self::Ephemeral | Self::Untracked)
    }

    pub(super) fn lifetime(&self) -> Lifetime {
        match self {
            Self::Any | Self::Ephemeral | Self::Topic => Lifetime::Step,
            Self::Untracked => Lifetime::Run,
            _ => Lifetime::Persistent,
        }
    }

    /// Returns the value of a field of this kind before its first write.
    pub(super) fn initial_value(&self) -> Option<Value> {
        match self {
            Self::Append | Self::Upsert(_) => Some(Value::Array(Vec::new())),
            Self::Sum | Self::Max => Some(Value::from(0)),
            Self::Merge => Some(Value::Object(Map::new())),
            Self::Concat => Some(Value::String(String::new())),
            Self::Custom(reducer) => Some(reducer.initial_value()),
            _ => None,
        }
    }

    /// Checks that a value has the JSON type that this kind requires.
    pub(super) fn check(&self, field: &str, value: &Value) -> Result<(), FieldError> {
        let (fits, expected) = match self {
            Self::Append | Self::Upsert(_) | Self::Topic | Self::TopicAccumulate => {
                (value.is_array(), "an array")
            }
            Self::Sum => (value.is_number(), "a number"),
            Self::Merge => (value.is_object(), "an object"),
            Self::Concat => (value.is_string(), "a string"),
            _ => (true, ""),
        };
        if fits { Ok(()) } else { Err(mismatch(field, expected, value)) }
    }

    /// Folds a write into the current value.
    pub(super) fn fold(
        &self,
        index: usize,
        field: &str,
        current: &mut Slot,
        write: JsonWrite,
        fold: &mut Fold,
    ) -> Result<(), FieldError> {
        let JsonWrite { value, overwrite, .. } = write;
        let first = fold.mark_folded(index);
        if matches!(self, Self::Topic | Self::TopicAccumulate) {
            let reset = overwrite || (matches!(self, Self::Topic) && first);
            return append_to_topic(index, &mut current.value, value, reset, fold);
        }
        if overwrite || current.value.is_none() || !self.reduces() {
            self.check(field, &value)?;
            fold.record(index, Delta::Whole);
            *current = Slot::new(value);
            return Ok(());
        }
        let Slot { value: current, decoded } = current;
        let slot = Arc::make_mut(current.get_or_insert_default());
        match self {
            Self::Append => append(index, field, slot, value, fold),
            Self::Upsert(key) => upsert(index, field, slot, value, key, fold),
            Self::Merge => merge(index, field, slot, value, fold),
            Self::Custom(reducer) => {
                let records_change = fold.is_recording();
                let field = ReducedField { name: field, value: slot, decoded, records_change };
                let write = ReducedWrite { value, decoded: write.decoded };
                let change = reducer.fold(field, write)?;
                fold.record(index, change.map_or(Delta::Whole, Delta::Part));
                Ok(())
            }
            _ => {
                fold.record(index, Delta::Whole);
                self.reduce_scalar(field, slot, value)
            }
        }
    }

    fn reduces(&self) -> bool {
        matches!(
            self,
            Self::Append
                | Self::Sum
                | Self::Max
                | Self::Min
                | Self::Merge
                | Self::Concat
                | Self::Upsert(_)
                | Self::Custom(_)
        )
    }

    fn reduce_scalar(&self, field: &str, slot: &mut Value, value: Value) -> Result<(), FieldError> {
        match (self, &mut *slot, &value) {
            (Self::Sum, Value::Number(sum), Value::Number(more)) => *sum = add(sum, more),
            (Self::Sum, ..) => return Err(mismatch(field, "a number", &value)),
            (Self::Concat, Value::String(text), Value::String(more)) => text.push_str(more),
            (Self::Concat, ..) => return Err(mismatch(field, "a string", &value)),
            (Self::Max, ..) => replace_if(field, slot, value, Ordering::Greater)?,
            _ => replace_if(field, slot, value, Ordering::Less)?,
        }
        Ok(())
    }
}

fn append(
    index: usize,
    field: &str,
    slot: &mut Value,
    value: Value,
    fold: &mut Fold,
) -> Result<(), FieldError> {
    let (Value::Array(list), Value::Array(items)) = (slot, value) else {
        return Err(FieldError::new(field, "only an array can be appended to an array"));
    };
    if fold.is_recording() {
        fold.record(index, Delta::Part(Change::Extend(items.clone())));
    }
    list.extend(items);
    Ok(())
}

fn upsert(
    index: usize,
    field: &str,
    slot: &mut Value,
    value: Value,
    key: &str,
    fold: &mut Fold,
) -> Result<(), FieldError> {
    let (Value::Array(list), Value::Array(items)) = (slot, value) else {
        return Err(FieldError::new(field, "only an array can be upserted into an array"));
    };
    let mut puts = Vec::new();
    for item in items {
        let Some(id) = item.get(key) else {
            let problem = format!("an item lacks the key field `{key}`");
            return Err(FieldError::new(field, problem));
        };
        let position = list.iter().rposition(|it| it.get(key) == Some(id)).unwrap_or(list.len());
        if fold.is_recording() {
            puts.push((position, item.clone()));
        }
        if position == list.len() { list.push(item) } else { list[position] = item }
    }
    fold.record(index, Delta::Part(Change::Put(puts)));
    Ok(())
}

fn merge(
    index: usize,
    field: &str,
    slot: &mut Value,
    value: Value,
    fold: &mut Fold,
) -> Result<(), FieldError> {
    let (Value::Object(map), Value::Object(entries)) = (slot, value) else {
        return Err(FieldError::new(field, "only an object can be merged into an object"));
    };
    if fold.is_recording() {
        fold.record(index, Delta::Part(Change::Merge(entries.clone())));
    }
    map.extend(entries);
    Ok(())
}

/// Appends a write to a topic. The items of an array are appended one by one; any other value is appended as one item.
///
/// If `reset` is true, the write replaces the topic's items.
fn append_to_topic(
    index: usize,
    current: &mut Option<Arc<Value>>,
    value: Value,
    reset: bool,
    fold: &mut Fold,
) -> Result<(), FieldError> {
    let items = match value {
        Value::Array(items) => items,
        item => vec![item],
    };
    let was_empty = current.is_none();
    if reset {
        *current = None;
    }
    // Writing no items is a change only if it clears a topic that has items. An empty topic has no value.
    if items.is_empty() && (was_empty || !reset) {
        fold.mark_unchanged(index);
        return Ok(());
    }
    if !items.is_empty() {
        let slot = Arc::make_mut(current.get_or_insert_with(|| Arc::new(Value::Array(Vec::new()))));
        if let Value::Array(list) = slot {
            list.extend(items);
        }
    }
    if current.is_none() {
        fold.mark_unchanged(index);
    }
    fold.record(index, Delta::Whole);
    Ok(())
}

fn replace_if(
    field: &str,
    slot: &mut Value,
    value: Value,
    replace_when: Ordering,
) -> Result<(), FieldError> {
    let order = match (&value, &*slot) {
        (Value::Number(a), Value::Number(b)) => compare(a, b),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (a, b) => {
            let problem = format!("cannot compare {} with {}", json_type(a), json_type(b));
            return Err(FieldError::new(field, problem));
        }
    };
    if order == Some(replace_when) {
        *slot = value;
    }
    Ok(())
}

/// Adds two numbers. The sum is an integer if both operands are integers and the sum does not overflow. Otherwise it is
/// a float.
fn add(a: &Number, b: &Number) -> Number {
    let whole = a.as_i128().zip(b.as_i128()).map(|(a, b)| a + b);
    if let Some(sum) = whole.and_then(Number::from_i128) {
        return sum;
    }
    let sum = a.as_f64().zip(b.as_f64()).and_then(|(a, b)| Number::from_f64(a + b));
    // JSON has no infinity, so the first operand is kept if the sum overflows.
    sum.unwrap_or_else(|| a.clone())
}

fn compare(a: &Number, b: &Number) -> Option<Ordering> {
    match a.as_i128().zip(b.as_i128()) {
        Some((a, b)) => Some(a.cmp(&b)),
        None => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

fn mismatch(field: &str, expected: &str, value: &Value) -> FieldError {
    FieldError::new(field, format_args!("expected {expected}, not {}", json_type(value)))
}
