//! Fields of a state that differ.

use std::collections::BTreeSet;

use serde_json::Value;

/// A field that has different values in the two runs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FieldChange {
    /// Name of the field.
    pub field: String,
    /// The value in the first run, or `None` if the field is missing there.
    pub was: Option<Value>,
    /// The value in the second run, or `None` if the field is missing there.
    pub now: Option<Value>,
}

/// Returns the fields that differ between two states.
pub(super) fn changed_fields(a: Option<&Value>, b: Option<&Value>) -> Vec<FieldChange> {
    let object = |it: Option<&Value>| it.and_then(Value::as_object).cloned().unwrap_or_default();
    let (a, b) = (object(a), object(b));
    let names: BTreeSet<_> = a.keys().chain(b.keys()).collect();
    let change = |it: &&String| FieldChange {
        field: (*it).clone(),
        was: a.get(*it).cloned(),
        now: b.get(*it).cloned(),
    };
    names.iter().map(change).filter(|it| it.was != it.now).collect()
}
