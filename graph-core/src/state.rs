//! State: the one value a graph's nodes read and update.
//!
//! A state is a plain struct with `#[derive(State)]`, or a [`JsonState`](crate::JsonState) whose fields
//! are chosen at run time. Both implement [`State`], and the engine knows nothing else about them.

pub(crate) mod erased;
mod field;
mod fold;
pub(crate) mod guard;
pub mod migrate;
pub mod reduce;

use serde_json::Value;

pub use field::{Field, FieldError, FieldSet, Lifetime};
pub(crate) use fold::Delta;
pub use fold::{ExactWrite, Fold, IntoWrite, Overwrite, Touched, Write};

/// The state of a graph: named fields, each with its own rule for several writes in one step.
///
/// Written by `#[derive(State)]`; there is seldom a reason to implement it by hand.
/// The derive also writes the state's update type, one method a field:
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
    message = "`{Self}` is not the state of a graph",
    label = "this type does not implement `State`",
    note = "add `#[derive(State, Clone, Default)]` to the struct"
)]
pub trait State: Clone + Send + Sync + 'static {
    /// What a node returns: some of the fields, each to be folded into the state by its reducer.
    type Update: Clone + Send + Sync + 'static;

    /// The version of the stored form. Raise it, and add a [`Migrations`](migrate::Migrations) step,
    /// when fields of stored threads are renamed or change their type.
    const VERSION: u32 = 1;

    /// The fields, in declaration order. Every other method names a field by its index here.
    fn fields(&self) -> &[Field];

    /// Which fields an update writes.
    fn touched(&self, update: &Self::Update) -> Touched;

    /// Folds an update in place, leaving `update` empty.
    fn fold(&mut self, update: &mut Self::Update, fold: &mut Fold) -> Result<(), FieldError>;

    /// The update that writes every input field of this value: what a state given as input means.
    fn into_update(self) -> Self::Update;

    /// Takes a field back to its empty value.
    fn clear(&mut self, field: usize);

    /// A field as JSON, or `None` where it was never written.
    fn value(&self, field: usize) -> Result<Option<Value>, FieldError>;

    /// Sets a field from JSON, as when a checkpoint is loaded.
    fn set_value(&mut self, field: usize, value: Value) -> Result<(), FieldError>;

    /// The writes of an update as JSON: what a checkpointer stores of a finished task.
    fn writes(&self, update: &Self::Update) -> Result<Vec<FieldWrite>, FieldError>;

    /// The update that makes these writes; each field stands in `writes` once at most.
    fn update_from(&self, writes: Vec<FieldWrite>) -> Result<Self::Update, FieldError>;
}

/// The fields of a state that a filter lets through, as a JSON object.
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

/// One write of an update, as JSON.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct FieldWrite {
    /// The field's name.
    pub field: String,
    /// The value written.
    pub value: Value,
    /// Whether the value replaces the field instead of being reduced into it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overwrite: bool,
}

/// What the code written by `#[derive(State)]` calls. Not part of the API.
#[doc(hidden)]
pub mod derive {
    use serde::{Serialize, de::DeserializeOwned};
    use serde_json::Value;

    use super::{FieldError, FieldWrite, Write};

    pub use std::borrow::Cow;

    /// A field's value as JSON.
    pub fn to_value<T: Serialize>(field: &str, value: &T) -> Result<Option<Value>, FieldError> {
        serde_json::to_value(value).map(Some).map_err(|error| FieldError::encode(field, &error))
    }

    /// A field's value from JSON.
    pub fn from_value<T: DeserializeOwned>(field: &str, value: Value) -> Result<T, FieldError> {
        super::field::decode(field, value)
    }

    /// Appends the write of one field, if there is one.
    pub fn push_write<U: Serialize>(
        writes: &mut Vec<FieldWrite>,
        field: &str,
        write: &Option<Write<U>>,
    ) -> Result<(), FieldError> {
        if let Some(write) = write {
            let value = serde_json::to_value(&write.value)
                .map_err(|error| FieldError::encode(field, &error))?;
            writes.push(FieldWrite { field: field.to_owned(), value, overwrite: write.overwrite });
        }
        Ok(())
    }

    /// The write of one field from its stored form.
    pub fn pull_write<U: DeserializeOwned>(
        write: FieldWrite,
    ) -> Result<Option<Write<U>>, FieldError> {
        let value = from_value(&write.field, write.value)?;
        Ok(Some(Write { value, overwrite: write.overwrite }))
    }
}
