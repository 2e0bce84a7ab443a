//! The value of one field of a JSON state, and a write to it.

use std::{any::Any, sync::Arc};

use serde_json::Value;

use crate::state::field::{Field, FieldWrite};

/// A typed copy of a JSON value.
pub type Decoded = Arc<dyn Any + Send + Sync>;

/// The value of a field. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Slot {
    pub(super) value: Option<Arc<Value>>,
    /// A typed copy of `value` that the field's reducer keeps.
    pub(super) decoded: Option<Decoded>,
}

impl Slot {
    pub(super) fn new(value: Value) -> Self {
        Self { value: Some(Arc::new(value)), decoded: None }
    }
}

/// A write to one field.
#[derive(Clone, Debug)]
pub(super) struct JsonWrite {
    /// Index of the field.
    pub(super) field: usize,
    pub(super) value: Value,
    /// Whether the value replaces the field's value instead of being reduced into it.
    pub(super) overwrite: bool,
    /// A typed copy of `value`, for the field's reducer.
    pub(super) decoded: Option<Decoded>,
}

impl JsonWrite {
    pub(super) fn new(field: usize, value: Value, overwrite: bool) -> Self {
        Self { field, value, overwrite, decoded: None }
    }

    pub(super) fn to_field_write(&self, field: &Field) -> FieldWrite {
        FieldWrite {
            field: field.name.clone().into_owned(),
            value: self.value.clone(),
            overwrite: self.overwrite,
        }
    }
}
