//! Folding: applying the writes of one step to the fields.

use crate::state::{
    change::Change,
    field::{FieldError, FieldSet},
    reduce::Reducer,
};

/// A value that replaces the field's value instead of being reduced into it.
///
/// All other writes to the field in the same step are ignored. Two overwrites of one field in one step are a conflict.
///
/// ```
/// use graph_core::{Overwrite, State};
///
/// #[derive(State, Clone, Default)]
/// struct Chat {
///     #[reduce(append)]
///     lines: Vec<String>,
/// }
///
/// let cleared = Chat::update().lines(Overwrite(vec![]));
/// # let _ = cleared;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overwrite<T>(pub T);

/// A typed write to one field. An update consists of such writes.
#[derive(Clone, Debug)]
pub struct Write<U> {
    /// The written value.
    pub value: U,
    /// Whether the value replaces the field's value instead of being reduced into it.
    pub overwrite: bool,
}

/// An argument of an update method: a value that converts into `U`, or an [`Overwrite`] that contains such a value.
///
/// `M` is a marker type that prevents overlapping implementations. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "cannot write a value of type `{Self}` to a field that takes `{U}`",
    label = "expected `{U}`, a type that converts into it, or an `Overwrite` of either",
    note = "the items of a list are not converted: for a `Vec<String>`, write `[\"text\".to_owned()]`",
    note = "a number literal may need its type: for a `u32`, write `1u32`"
)]
pub trait IntoWrite<U, M> {
    /// Converts the argument into a write.
    fn into_write(self) -> Write<U>;
}

#[doc(hidden)]
#[derive(Debug)]
pub struct IsValue;

#[doc(hidden)]
#[derive(Debug)]
pub struct IsOverwrite;

#[diagnostic::do_not_recommend]
impl<U, T: Into<U>> IntoWrite<U, IsValue> for T {
    fn into_write(self) -> Write<U> {
        Write { value: self.into(), overwrite: false }
    }
}

#[diagnostic::do_not_recommend]
impl<U, T: Into<U>> IntoWrite<U, IsOverwrite> for Overwrite<T> {
    fn into_write(self) -> Write<U> {
        Write { value: self.0.into(), overwrite: true }
    }
}

/// An argument of an update method for a number field: a value of type `U`, or an [`Overwrite`] that contains one.
///
/// [`IntoWrite`] accepts every type that converts into the field's type. If number fields used it, the compiler would
/// infer `i32` for the literal `3` and then reject it, because `i32` does not convert into, say, `usize`. `M` is a
/// marker type that prevents overlapping implementations. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "cannot write a value of type `{Self}` to a field of type `{U}`",
    label = "expected `{U}` or `Overwrite<{U}>`"
)]
pub trait ExactWrite<U, M> {
    /// Converts the argument into a write.
    fn into_write(self) -> Write<U>;
}

impl<U> ExactWrite<U, IsValue> for U {
    fn into_write(self) -> Write<U> {
        Write { value: self, overwrite: false }
    }
}

impl<U> ExactWrite<U, IsOverwrite> for Overwrite<U> {
    fn into_write(self) -> Write<U> {
        Write { value: self.0, overwrite: true }
    }
}

/// The sets of fields that an update writes and overwrites.
#[derive(Clone, Debug, Default)]
pub struct WriteSet {
    /// All fields that are written, including overwritten ones.
    pub written: FieldSet,
    /// The fields that are overwritten.
    pub overwritten: FieldSet,
}

impl WriteSet {
    /// Adds the field if `write` is `Some`.
    #[inline]
    pub fn add<U>(&mut self, field: usize, write: &Option<Write<U>>) {
        if let Some(write) = write {
            self.written.insert(field);
            if write.overwrite {
                self.overwritten.insert(field);
            }
        }
    }
}

/// Tracks the folding of one step's writes: overwritten fields, changed fields, and the changes for a checkpoint.
#[derive(Debug, Default)]
pub struct Fold {
    /// Fields that a task of this step overwrites. Other writes to them are ignored.
    overwritten: FieldSet,
    /// Fields folded so far in this step.
    folded: FieldSet,
    /// Folded fields whose value differs from their value before the step.
    changed: FieldSet,
    /// The changes to store, in order. `None` if the step is not checkpointed.
    changes: Option<Vec<(usize, Delta)>>,
}

/// How a checkpoint stores the effect of one fold on a field.
#[derive(Debug)]
pub(crate) enum Delta {
    /// A change that can be stored instead of the whole value.
    Part(Change),
    /// The whole value must be stored.
    Whole,
}

impl Fold {
    pub(crate) fn new(overwritten: FieldSet, record: bool) -> Self {
        Self { overwritten, changes: record.then(Vec::new), ..Self::default() }
    }

    /// Marks fields as overwritten, so that other writes to them are ignored from now on.
    pub(crate) fn mark_overwritten(&mut self, fields: &FieldSet) {
        self.overwritten.union_with(fields);
    }

    /// Takes the write out of `write`, if there is one, and folds it into `current` with the field's reducer.
    pub fn field<R, T>(
        &mut self,
        field: usize,
        current: &mut T,
        write: &mut Option<Write<R::Update>>,
    ) -> Result<(), FieldError>
    where
        R: Reducer<T>,
    {
        let Some(Write { value, overwrite }) = write.take() else { return Ok(()) };
        if self.ignores(field, overwrite) {
            return Ok(());
        }
        let first = self.mark_folded(field);
        let replace = overwrite || (R::RESETS_EACH_STEP && first);
        if self.is_recording() {
            let part = if replace { None } else { R::delta(current, &value) };
            self.record(field, part.map_or(Delta::Whole, Delta::Part));
        }
        if replace {
            R::replace(current, value)
        } else {
            R::fold(current, value)
        }
        Ok(())
    }

    /// Like [`field`](Self::field), for a field without a reducer: the written value replaces the current one.
    pub fn replace<T>(&mut self, field: usize, current: &mut T, write: &mut Option<Write<T>>) {
        let Some(Write { value, overwrite }) = write.take() else { return };
        if !self.ignores(field, overwrite) {
            self.mark_folded(field);
            if self.is_recording() {
                self.record(field, Delta::Whole);
            }
            *current = value;
        }
    }

    /// Returns whether a write is ignored because another task of the step overwrites the field.
    pub(crate) fn ignores(&self, field: usize, overwrite: bool) -> bool {
        !overwrite && self.overwritten.contains(field)
    }

    /// Marks a field as folded and changed. Returns `true` if this is its first fold in this step.
    pub(crate) fn mark_folded(&mut self, field: usize) -> bool {
        self.changed.insert(field);
        self.folded.insert(field)
    }

    /// Returns whether the changes are collected for a checkpoint.
    pub(crate) fn is_recording(&self) -> bool {
        self.changes.is_some()
    }

    pub(crate) fn record(&mut self, field: usize, delta: Delta) {
        if let Some(changes) = &mut self.changes {
            changes.push((field, delta));
        }
    }

    /// Records that a field was cleared at the end of the step.
    pub(crate) fn record_clear(&mut self, field: usize) {
        self.record(field, Delta::Part(Change::Clear));
    }

    /// Marks a field as unchanged, because a write did not alter its value.
    pub(crate) fn mark_unchanged(&mut self, field: usize) {
        self.changed.remove(field);
    }

    pub(crate) fn folded(&self) -> &FieldSet {
        &self.folded
    }

    pub(crate) fn changed(&self) -> &FieldSet {
        &self.changed
    }

    /// Returns the changes to store, or `None` if the step is not checkpointed.
    pub(crate) fn into_changes(self) -> Option<Vec<(usize, Delta)>> {
        self.changes
    }
}
