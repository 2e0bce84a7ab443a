//! State: the value that all nodes of a graph read and update.
//!
//! A state is a struct with `#[derive(State)]`, or a [`JsonState`](crate::JsonState) whose fields are chosen at run
//! time. The engine uses both only through the trait [`State`].

pub(crate) mod change;
pub(crate) mod erased;
pub(crate) mod field;
pub(crate) mod fold;
pub(crate) mod limits;
pub mod migrate;
pub mod reduce;
#[doc(hidden)]
pub mod untracked;

use serde_json::Value;

pub use self::{
    field::{Field, FieldError, FieldSet, FieldValue, FieldWrite, Lifetime},
    fold::{ExactWrite, Fold, IntoWrite, Overwrite, Write, WriteSet},
};

/// The state of a graph. It consists of named fields, each with a reducer that folds written values into the field.
///
/// Use `#[derive(State)]`; manual implementations are rarely needed. The derive also generates the update type, with
/// one method per field:
///
/// ```
/// use graph_core::State;
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Essay {
///     topic: String,
///     #[reduce(append)]
///     drafts: Vec<String>,
/// }
///
/// let update: EssayUpdate = Essay::update().topic("rust").drafts(["a first draft".to_owned()]);
/// # let _ = update;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used as a graph state",
    label = "this type does not implement `State`",
    note = "add `#[derive(State, Clone, Default)]` to the struct"
)]
// The compiler quotes the next line in its error about a struct that is not a state, so the line says what to write.
pub trait State: Clone + Send + Sync + 'static /* add `#[derive(State)]` to the struct */ {
    /// The update that a node returns: writes to some of the fields, which their reducers fold into the state.
    type Update: Clone + Send + Sync + 'static;

    /// Version of the format in which the state is stored.
    ///
    /// Increase it and add a [`Migrations`](migrate::Migrations) step when you rename a field or change its type.
    const VERSION: u32 = 1;

    /// Whether the fields are known at compile time. A stored field that is not among them is then an error.
    const HAS_FIXED_FIELDS: bool = true;

    /// Returns the fields in declaration order. All other methods identify a field by its index in this slice.
    fn fields(&self) -> &[Field];

    /// Returns the fields that an update writes.
    fn write_set(&self, update: &Self::Update) -> WriteSet;

    /// Folds an update into the state in place, leaving `update` empty.
    fn fold(&mut self, update: &mut Self::Update, fold: &mut Fold) -> Result<(), FieldError>;

    /// Converts this value into an update that writes every input field. Used when a state is passed as a run's input.
    fn into_update(self) -> Self::Update;

    /// Resets a field to its default value, or removes the value if the state allows fields without a value.
    fn clear(&mut self, field: usize);

    /// Returns a field as JSON, or `None` if the field has no value.
    fn value(&self, field: usize) -> Result<Option<Value>, FieldError>;

    /// Sets a field from JSON, for example when a checkpoint is loaded.
    fn set_value(&mut self, field: usize, value: Value) -> Result<(), FieldError>;

    /// Sets a field to the value that it has in another state.
    fn copy_field(&mut self, field: usize, from: &Self);

    /// Returns the writes of an update as JSON. A checkpointer stores the result of a finished task in this form.
    ///
    /// The default calls [`update_to_writes`](Self::update_to_writes). Override it to check an update against this
    /// state.
    fn writes(&self, update: &Self::Update) -> Result<Vec<FieldWrite>, FieldError> {
        Self::update_to_writes(update)
    }

    /// Returns the writes of an update as JSON without a state, for example of a
    /// [`Command::parent`](crate::Command::parent) that a graph in another process sends.
    fn update_to_writes(update: &Self::Update) -> Result<Vec<FieldWrite>, FieldError>;

    /// Builds an update from stored writes. `writes` contains each field at most once.
    fn update_from(&self, writes: Vec<FieldWrite>) -> Result<Self::Update, FieldError>;

    /// Returns the update that turns `before` into this state: the writes of a subgraph to the state of its parent.
    ///
    /// The derive asks each field's reducer for the difference. This default overwrites every field that changed.
    fn update_since(&self, before: &Self) -> Result<Self::Update, FieldError> {
        let mut writes = Vec::new();
        for (index, field) in self.fields().iter().enumerate() {
            let value = self.value(index)?;
            if value != before.value(index)? {
                let (field, value) = (field.name.clone().into_owned(), value.unwrap_or_default());
                writes.push(FieldWrite { field, value, overwrite: true });
            }
        }
        self.update_from(writes)
    }
}

/// Returns the fields that `show` selects, as a JSON object. Fields without a value are omitted.
pub(crate) fn state_json<S: State>(
    state: &S,
    show: impl Fn(&Field) -> bool,
) -> Result<Value, FieldError> {
    let mut object = serde_json::Map::new();
    for (index, field) in state.fields().iter().enumerate().filter(|(_, it)| show(it)) {
        if let Some(value) = state.value(index)? {
            object.insert(field.name.clone().into_owned(), value);
        }
    }
    Ok(Value::Object(object))
}

/// Helpers for the code that `#[derive(State)]` generates. Not part of the public API.
#[doc(hidden)]
pub mod derive {
    use serde::{Serialize, de::DeserializeOwned};
    use serde_json::Value;

    use super::{FieldError, FieldWrite, Write};

    pub use std::borrow::Cow;

    /// Serialises a field's value to JSON.
    pub fn to_value<T: Serialize>(field: &str, value: &T) -> Result<Option<Value>, FieldError> {
        serde_json::to_value(value).map(Some).map_err(|error| FieldError::encode(field, &error))
    }

    /// Serialises the write to a field and appends it to `writes`. Does nothing if `write` is `None`. `encode` is
    /// [`FieldValue::to_value`](super::FieldValue::to_value) of the written type.
    pub fn push_write<U>(
        writes: &mut Vec<FieldWrite>,
        field: &str,
        write: &Option<Write<U>>,
        encode: impl FnOnce(&U, &str) -> Result<Option<Value>, FieldError>,
    ) -> Result<(), FieldError> {
        if let Some(write) = write {
            let value = encode(&write.value, field)?.unwrap_or_default();
            writes.push(FieldWrite { field: field.to_owned(), value, overwrite: write.overwrite });
        }
        Ok(())
    }

    /// Returns the write that turns the field's value into `after`, or `None` if its JSON is the same before and after.
    pub fn replacement<T: Clone>(
        json: &(Option<Value>, Option<Value>),
        after: &T,
    ) -> Option<Write<T>> {
        (json.0 != json.1).then(|| Write { value: after.clone(), overwrite: false })
    }

    /// Returns the write that turns the field's value before a step into its value after the step, or `None` if they
    /// are equal.
    ///
    /// `json` contains both values as JSON. `difference` calls the field's reducer; if it returns `None`, the write
    /// overwrites the field.
    pub fn difference<U: DeserializeOwned>(
        field: &str,
        json: (Option<Value>, Option<Value>),
        difference: impl FnOnce() -> Option<U>,
    ) -> Result<Option<Write<U>>, FieldError> {
        if json.0 == json.1 {
            return Ok(None);
        }
        match difference() {
            Some(value) => Ok(Some(Write { value, overwrite: false })),
            None => {
                let (field, value) = (field.to_owned(), json.1.unwrap_or_default());
                pull_write(FieldWrite { field, value, overwrite: true })
            }
        }
    }

    /// Deserialises a stored write to a field.
    pub fn pull_write<U: DeserializeOwned>(
        write: FieldWrite,
    ) -> Result<Option<Write<U>>, FieldError> {
        let value = super::field::decode(&write.field, write.value)?;
        Ok(Some(Write { value, overwrite: write.overwrite }))
    }
}
