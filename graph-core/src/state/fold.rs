//! Folding: how the writes of one step become field values.

use serde_json::Value;

use super::{FieldError, FieldSet, reduce::Reducer};
use crate::checkpoint::Change;

/// A value that replaces a reduced field instead of being folded into it.
///
/// All other writes of that step to the field are ignored; two overwrites in one step are a conflict.
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

/// One write of a field, as an update holds it.
#[derive(Clone, Debug)]
pub struct Write<U> {
    /// The value to be folded in, or to take the field's place.
    pub value: U,
    /// Whether the value takes the field's place.
    pub overwrite: bool,
}

/// What an update's methods take: a value, or an [`Overwrite`] of one.
///
/// `M` only tells the compiler which of the two it is.
#[diagnostic::on_unimplemented(
    message = "a field that is written with `{U}` cannot be written with `{Self}`",
    label = "neither a `{U}`, nor what turns into one, nor an `Overwrite` of one"
)]
pub trait IntoWrite<U, M> {
    /// The write.
    fn into_write(self) -> Write<U>;
}

#[doc(hidden)]
#[derive(Debug)]
pub struct Plain;
#[doc(hidden)]
#[derive(Debug)]
pub struct Replacing;

#[diagnostic::do_not_recommend]
impl<U, T: Into<U>> IntoWrite<U, Plain> for T {
    fn into_write(self) -> Write<U> {
        Write { value: self.into(), overwrite: false }
    }
}

#[diagnostic::do_not_recommend]
impl<U, T: Into<U>> IntoWrite<U, Replacing> for Overwrite<T> {
    fn into_write(self) -> Write<U> {
        Write { value: self.0.into(), overwrite: true }
    }
}

/// What the methods of number fields take: the number itself, or an [`Overwrite`] of it.
///
/// [`IntoWrite`] takes all that turns into the field's type, so the compiler would make an `i32` of a literal `3`
/// and then find that an `i32` does not turn into a `usize`. `M` only tells the compiler which of the two it is.
#[diagnostic::on_unimplemented(
    message = "a field of type `{U}` cannot be written with `{Self}`",
    label = "neither `{U}` nor an `Overwrite` of one"
)]
pub trait ExactWrite<U, M> {
    /// The write.
    fn into_write(self) -> Write<U>;
}

impl<U> ExactWrite<U, Plain> for U {
    fn into_write(self) -> Write<U> {
        Write { value: self, overwrite: false }
    }
}

impl<U> ExactWrite<U, Replacing> for Overwrite<U> {
    fn into_write(self) -> Write<U> {
        Write { value: self.0, overwrite: true }
    }
}

/// The fields that an update writes.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    /// Every field written.
    pub written: FieldSet,
    /// Those of them that are overwritten.
    pub overwritten: FieldSet,
}

impl Touched {
    /// Notes one field's write, if there is one.
    pub fn note<U>(&mut self, field: usize, write: &Option<Write<U>>) {
        if let Some(write) = write {
            self.written.insert(field);
            if write.overwrite {
                self.overwritten.insert(field);
            }
        }
    }
}

/// One step's fold over a state: what was overwritten, what has changed, and what a checkpoint must store.
#[derive(Debug, Default)]
pub struct Fold {
    /// Fields that some task of this step overwrites: their plain writes are ignored.
    overwritten: FieldSet,
    /// Fields folded so far in this step.
    folded: FieldSet,
    /// Fields that hold another value than before the step.
    changed: FieldSet,
    /// The changes to store, in order; `None` where nothing is stored.
    changes: Option<Vec<(usize, Delta)>>,
}

/// What one fold changed: a part that can be stored alone, or the whole field.
#[derive(Debug)]
pub(crate) enum Delta {
    Part(Change),
    Whole,
}

impl Fold {
    pub(crate) fn new(overwritten: FieldSet, record: bool) -> Self {
        Self { overwritten, changes: record.then(Vec::new), ..Self::default() }
    }

    /// Notes fields that are overwritten, so that plain writes after this are ignored.
    pub(crate) fn overwrite(&mut self, fields: &FieldSet) {
        self.overwritten.union_with(fields);
    }

    /// Folds one write of a field by its reducer, taking it out of the update.
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
        if self.skips(field, overwrite) {
            return Ok(());
        }
        let first = self.begin(field);
        let replace = overwrite || (R::STARTS_ANEW && first);
        if self.records() {
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

    /// Whether a write is ignored because another task of the step overwrites the field.
    pub(crate) fn skips(&self, field: usize, overwrite: bool) -> bool {
        !overwrite && self.overwritten.contains(field)
    }

    /// Notes that a field is being folded; `true` for the first fold of this step.
    pub(crate) fn begin(&mut self, field: usize) -> bool {
        self.changed.insert(field);
        self.folded.insert(field)
    }

    pub(crate) fn records(&self) -> bool {
        self.changes.is_some()
    }

    pub(crate) fn record(&mut self, field: usize, delta: Delta) {
        if let Some(changes) = &mut self.changes {
            changes.push((field, delta));
        }
    }

    /// Notes that a field was cleared by the end of the step.
    pub(crate) fn cleared(&mut self, field: usize) {
        self.record(field, Delta::Part(Change::Clear));
    }

    /// Takes back the note that a field changed, for a write that left it as it was.
    pub(crate) fn unchanged(&mut self, field: usize) {
        self.changed.remove(field);
    }

    pub(crate) fn folded(&self) -> &FieldSet {
        &self.folded
    }

    pub(crate) fn changed(&self) -> &FieldSet {
        &self.changed
    }

    pub(crate) fn into_changes(self) -> Vec<(usize, Delta)> {
        self.changes.unwrap_or_default()
    }
}

/// The items of a serialisable list as JSON, or `None` if one of them has no JSON form.
pub(crate) fn items<'a, T: serde::Serialize + 'a>(
    items: impl IntoIterator<Item = &'a T>,
) -> Option<Vec<Value>> {
    items.into_iter().map(|it| serde_json::to_value(it).ok()).collect()
}
