//! The type-erased state that the engine works with.

use std::{any::Any, sync::Arc};

use serde_json::{Map, Value};

use crate::state::{
    State,
    field::{Field, FieldError, FieldSet, FieldWrite},
    fold::{Fold, WriteSet},
    state_json,
};

/// A type-erased [`State::Update`].
pub(crate) type AnyUpdate = Box<dyn Any + Send + Sync>;

pub(crate) type AnyState = Arc<dyn Any + Send + Sync>;

/// A function that takes a snapshot of the state and a filter, and serialises the fields that the filter selects. If a
/// field cannot be serialised, the result is the error message as a JSON string.
pub(crate) type ToJsonFn = fn(&(dyn Any + Send + Sync), fn(&Field) -> bool) -> Value;

/// A function that builds an update from writes. It takes a snapshot of a state of the same type.
pub(crate) type UpdateFromFn =
    fn(&(dyn Any + Send + Sync), Vec<FieldWrite>) -> Result<AnyUpdate, FieldError>;

/// A type-erased state.
///
/// Each task holds a clone of the state's `Arc`. The commit runs after the tasks have finished, so the `Arc` is
/// usually unique again and the fold happens in place, without a copy.
pub(crate) trait ErasedState: Send + Sync {
    fn fields(&self) -> &[Field];
    fn version(&self) -> u32;
    fn has_fixed_fields(&self) -> bool;
    /// Returns another handle to the same value. While both handles exist, folding into one of them copies the value
    /// first.
    fn fork(&self) -> Box<dyn ErasedState>;
    fn snapshot(&self) -> AnyState;
    fn as_any(&self) -> &(dyn Any + Send + Sync);
    fn write_set(&self, update: &AnyUpdate) -> Result<WriteSet, FieldError>;
    fn fold(&mut self, update: &mut AnyUpdate, fold: &mut Fold) -> Result<(), FieldError>;
    fn clone_update(&self, update: &AnyUpdate) -> Result<AnyUpdate, FieldError>;
    fn clear(&mut self, field: usize);
    fn value(&self, field: usize) -> Result<Option<Value>, FieldError>;
    /// Sets fields to the values that they have in another state of the same type.
    fn copy_fields(&mut self, fields: &FieldSet, from: &dyn ErasedState);
    fn load(&mut self, values: Map<String, Value>) -> Result<(), FieldError>;
    fn writes(&self, update: &AnyUpdate) -> Result<Vec<FieldWrite>, FieldError>;
    fn update_from(&self, writes: Vec<FieldWrite>) -> Result<AnyUpdate, FieldError>;
    /// Returns [`update_from`](Self::update_from) as a function on a [`snapshot`](Self::snapshot).
    fn update_from_fn(&self) -> UpdateFromFn;
    fn json(&self, show: fn(&Field) -> bool) -> Result<Value, FieldError>;
    /// Returns a function that serialises a [`snapshot`](Self::snapshot) on demand.
    fn to_json_fn(&self) -> ToJsonFn;
}

/// The implementation of [`ErasedState`] for a state of type `S`.
pub(crate) struct TypedState<S>(pub(crate) Arc<S>);

impl<S: State> ErasedState for TypedState<S> {
    fn fields(&self) -> &[Field] {
        self.0.fields()
    }

    fn version(&self) -> u32 {
        S::VERSION
    }

    fn has_fixed_fields(&self) -> bool {
        S::HAS_FIXED_FIELDS
    }

    fn fork(&self) -> Box<dyn ErasedState> {
        Box::new(Self(self.0.clone()))
    }

    fn snapshot(&self) -> AnyState {
        self.0.clone()
    }

    fn as_any(&self) -> &(dyn Any + Send + Sync) {
        &*self.0
    }

    fn write_set(&self, update: &AnyUpdate) -> Result<WriteSet, FieldError> {
        update.downcast_ref().map(|it| self.0.write_set(it)).ok_or_else(wrong_type::<S>)
    }

    fn fold(&mut self, update: &mut AnyUpdate, fold: &mut Fold) -> Result<(), FieldError> {
        let update = update.downcast_mut::<S::Update>().ok_or_else(wrong_type::<S>)?;
        Arc::make_mut(&mut self.0).fold(update, fold)
    }

    fn clone_update(&self, update: &AnyUpdate) -> Result<AnyUpdate, FieldError> {
        let update = update.downcast_ref::<S::Update>().ok_or_else(wrong_type::<S>)?;
        Ok(Box::new(update.clone()))
    }

    fn clear(&mut self, field: usize) {
        Arc::make_mut(&mut self.0).clear(field);
    }

    fn value(&self, field: usize) -> Result<Option<Value>, FieldError> {
        self.0.value(field)
    }

    fn copy_fields(&mut self, fields: &FieldSet, from: &dyn ErasedState) {
        let from = from.as_any().downcast_ref().expect("all states of a graph have one type");
        let state = Arc::make_mut(&mut self.0);
        fields.iter().for_each(|it| state.copy_field(it, from));
    }

    fn load(&mut self, mut values: Map<String, Value>) -> Result<(), FieldError> {
        let state = Arc::make_mut(&mut self.0);
        let names: Vec<_> = state.fields().iter().map(|it| it.name.clone()).collect();
        for (index, name) in names.iter().enumerate() {
            if let Some(value) = values.remove(&**name) {
                state.set_value(index, value)?;
            }
        }
        Ok(())
    }

    fn writes(&self, update: &AnyUpdate) -> Result<Vec<FieldWrite>, FieldError> {
        self.0.writes(update.downcast_ref().ok_or_else(wrong_type::<S>)?)
    }

    fn update_from(&self, writes: Vec<FieldWrite>) -> Result<AnyUpdate, FieldError> {
        Ok(Box::new(self.0.update_from(writes)?))
    }

    fn update_from_fn(&self) -> UpdateFromFn {
        |state, writes| {
            let state = state.downcast_ref::<S>().ok_or_else(wrong_type::<S>)?;
            Ok(Box::new(state.update_from(writes)?))
        }
    }

    fn json(&self, show: fn(&Field) -> bool) -> Result<Value, FieldError> {
        state_json(&*self.0, show)
    }

    fn to_json_fn(&self) -> ToJsonFn {
        |state, show| match state.downcast_ref::<S>().map(|it| state_json(it, show)) {
            Some(Ok(value)) => value,
            Some(Err(error)) => Value::String(error.to_string()),
            None => Value::Null,
        }
    }
}

fn wrong_type<S: State>() -> FieldError {
    FieldError::new(
        "*",
        format_args!(
            "the update does not belong to state `{}`; `Command::parent::<P>` needs the state type of the \
             parent graph as `P`",
            std::any::type_name::<S>()
        ),
    )
}

/// Downcasts a graph's final state to the state type `S`.
pub(crate) fn downcast_state<S: State>(state: AnyState) -> S {
    let state = state.downcast::<S>();
    // Usually this is the last reference, so nothing is copied.
    Arc::unwrap_or_clone(state.expect("the final state has the graph's state type"))
}
