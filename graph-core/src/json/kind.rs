//! The kinds of JSON fields: how several writes become one value.

use std::{cmp::Ordering, sync::Arc};

use serde_json::{Map, Number, Value};

use crate::state::Delta;
use crate::{
    checkpoint::Change,
    state::{FieldError, Fold, Lifetime},
};

/// What a field of a JSON state does with writes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonKind {
    /// Keeps the last value; two writers in one step are a conflict.
    Last,
    /// Joins lists; starts empty.
    Append,
    /// Adds numbers; starts at 0.
    Sum,
    /// Keeps the greatest value; starts at 0.
    Max,
    /// Keeps the least value; starts without one.
    Min,
    /// Merges objects, later keys winning; starts empty.
    Merge,
    /// Joins texts; starts empty.
    Concat,
    /// Replaces list items whose given field is the same and appends the others; starts empty.
    Upsert(String),
    /// Takes the last of several writers; a step without a write clears it.
    Any,
    /// Lives one step; two writers are a conflict.
    Ephemeral,
    /// Is never saved; two writers are a conflict.
    Untracked,
    /// Gathers the writes of one step into a list; a step without a write clears it.
    Topic,
    /// Gathers the writes of all steps into a list.
    TopicKept,
    /// Tells a node whether this is the last step it may take. Computed, never written.
    IsLastStep,
    /// Tells a node how many steps are left. Computed, never written.
    RemainingSteps,
}

impl JsonKind {
    pub(super) fn is_computed(&self) -> bool {
        matches!(self, Self::IsLastStep | Self::RemainingSteps)
    }

    pub(super) fn takes_many(&self) -> bool {
        !matches!(self, Self::Last | Self::Ephemeral | Self::Untracked)
    }

    pub(super) fn lifetime(&self) -> Lifetime {
        match self {
            Self::Any | Self::Ephemeral | Self::Topic => Lifetime::Step,
            Self::Untracked => Lifetime::Run,
            _ => Lifetime::Kept,
        }
    }

    /// The value a field of this kind has before its first write.
    pub(super) fn start(&self) -> Option<Value> {
        match self {
            Self::Append | Self::Upsert(_) => Some(Value::Array(Vec::new())),
            Self::Sum | Self::Max => Some(Value::from(0)),
            Self::Merge => Some(Value::Object(Map::new())),
            Self::Concat => Some(Value::String(String::new())),
            _ => None,
        }
    }

    /// Whether a stored value can be of this kind.
    pub(super) fn check(&self, field: &str, value: &Value) -> Result<(), FieldError> {
        let (fits, wanted) = match self {
            Self::Append | Self::Upsert(_) | Self::Topic | Self::TopicKept => {
                (value.is_array(), "a list")
            }
            Self::Sum => (value.is_number(), "a number"),
            Self::Merge => (value.is_object(), "an object"),
            Self::Concat => (value.is_string(), "a text"),
            _ => (true, ""),
        };
        if fits { Ok(()) } else { Err(mismatch(field, wanted, value)) }
    }

    /// Folds one write in.
    pub(super) fn fold(
        &self,
        index: usize,
        field: &str,
        current: &mut Option<Arc<Value>>,
        value: Value,
        overwrite: bool,
        fold: &mut Fold,
    ) -> Result<(), FieldError> {
        let first = fold.begin(index);
        if matches!(self, Self::Topic | Self::TopicKept) {
            let anew = overwrite || (*self == Self::Topic && first);
            return gather(index, current, value, anew, fold);
        }
        if overwrite || current.is_none() || !self.reduces() {
            self.check(field, &value)?;
            fold.record(index, Delta::Whole);
            *current = Some(Arc::new(value));
            return Ok(());
        }
        let slot = Arc::make_mut(current.get_or_insert_default());
        match self {
            Self::Append => append(index, field, slot, value, fold),
            Self::Upsert(key) => upsert(index, field, slot, value, key, fold),
            Self::Merge => merge(index, field, slot, value, fold),
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
        )
    }

    fn reduce_scalar(&self, field: &str, slot: &mut Value, value: Value) -> Result<(), FieldError> {
        match (self, &mut *slot, &value) {
            (Self::Sum, Value::Number(sum), Value::Number(more)) => *sum = add(sum, more),
            (Self::Sum, ..) => return Err(mismatch(field, "a number", &value)),
            (Self::Concat, Value::String(text), Value::String(more)) => text.push_str(more),
            (Self::Concat, ..) => return Err(mismatch(field, "a text", &value)),
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
        return Err(FieldError::new(field, "only a list can be appended to a list"));
    };
    if fold.records() {
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
        return Err(FieldError::new(field, "only a list can be upserted into a list"));
    };
    let mut puts = Vec::new();
    for item in items {
        let Some(id) = item.get(key) else {
            let problem = format_args!("an item has no `{key}` to know it by");
            return Err(FieldError::new(field, problem));
        };
        let place = list.iter().rposition(|it| it.get(key) == Some(id)).unwrap_or(list.len());
        if fold.records() {
            puts.push((place, item.clone()));
        }
        if place == list.len() { list.push(item) } else { list[place] = item }
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
    if fold.records() {
        fold.record(index, Delta::Part(Change::Merge(entries.clone())));
    }
    map.extend(entries);
    Ok(())
}

/// Gathers a write into a topic: a list is joined, anything else is one item.
fn gather(
    index: usize,
    current: &mut Option<Arc<Value>>,
    value: Value,
    anew: bool,
    fold: &mut Fold,
) -> Result<(), FieldError> {
    let items = match value {
        Value::Array(items) => items,
        item => vec![item],
    };
    let was_empty = current.is_none();
    if anew {
        *current = None;
    }
    // An empty topic counts as absent, so that writing nothing to it is no change.
    if items.is_empty() && (was_empty || !anew) {
        fold.unchanged(index);
        return Ok(());
    }
    if !items.is_empty() {
        let slot = Arc::make_mut(current.get_or_insert_with(|| Arc::new(Value::Array(Vec::new()))));
        if let Value::Array(list) = slot {
            list.extend(items);
        }
    }
    if current.is_none() {
        fold.unchanged(index);
    }
    fold.record(index, Delta::Whole);
    Ok(())
}

fn replace_if(
    field: &str,
    slot: &mut Value,
    value: Value,
    wanted: Ordering,
) -> Result<(), FieldError> {
    let order = match (&value, &*slot) {
        (Value::Number(a), Value::Number(b)) => compare(a, b),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (a, b) => {
            let problem = format_args!("{} and {} have no order", name(a), name(b));
            return Err(FieldError::new(field, problem));
        }
    };
    if order == Some(wanted) {
        *slot = value;
    }
    Ok(())
}

/// Adds two numbers, staying with whole ones as long as they fit.
fn add(a: &Number, b: &Number) -> Number {
    let whole = a.as_i128().zip(b.as_i128()).map(|(a, b)| a + b);
    if let Some(sum) = whole.and_then(Number::from_i128) {
        return sum;
    }
    let sum = a.as_f64().zip(b.as_f64()).and_then(|(a, b)| Number::from_f64(a + b));
    // A sum beyond all floats stays what it was; JSON knows no infinity.
    sum.unwrap_or_else(|| a.clone())
}

fn compare(a: &Number, b: &Number) -> Option<Ordering> {
    match a.as_i128().zip(b.as_i128()) {
        Some((a, b)) => Some(a.cmp(&b)),
        None => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

fn mismatch(field: &str, wanted: &str, value: &Value) -> FieldError {
    FieldError::new(field, format_args!("wants {wanted}, not {}", name(value)))
}

/// What kind of JSON value it is, in words.
pub(super) fn name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
