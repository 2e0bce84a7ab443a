//! Migrations: bringing stored state to the version a program knows.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::{Map, Value};

use super::FieldWrite;

/// The steps from older versions of a state's stored form to the newer ones.
///
/// A state says its version with `#[state(version = 3)]`; a checkpoint of an older version goes through the
/// steps from its own version on when it is loaded.
///
/// ```
/// use graph_core::{Migrations, State};
/// use serde_json::json;
///
/// #[derive(State, Clone, Default)]
/// #[state(version = 3)]
/// struct Chat {
///     lines: Vec<String>,
///     language: String,
/// }
///
/// let migrations = Migrations::new()
///     .rename(1, "text", "lines")
///     .retype(1, "lines", |text| json!([text]))
///     .fill(2, "language", json!("en"));
/// # let _ = migrations;
/// ```
#[derive(Clone, Default)]
pub struct Migrations {
    /// What to do to leave a version behind.
    steps: BTreeMap<u32, Vec<Step>>,
}

/// One change of the stored form.
#[derive(Clone)]
enum Step {
    Rename(String, String),
    Retype(String, Arc<dyn Fn(Value) -> Value + Send + Sync>),
    Fill(String, Value),
    Custom(Arc<dyn Fn(&mut Map<String, Value>) + Send + Sync>),
}

impl Migrations {
    /// No step at all.
    pub fn new() -> Self {
        Self { steps: BTreeMap::new() }
    }

    /// From this version to the next, a field gets another name.
    #[must_use]
    pub fn rename(self, version: u32, from: &str, to: &str) -> Self {
        self.with(version, Step::Rename(from.to_owned(), to.to_owned()))
    }

    /// From this version to the next, a field gets another type.
    #[must_use]
    pub fn retype(
        self,
        version: u32,
        field: &str,
        convert: impl Fn(Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        self.with(version, Step::Retype(field.to_owned(), Arc::new(convert)))
    }

    /// From this version to the next, a field that is not there gets this value.
    #[must_use]
    pub fn fill(self, version: u32, field: &str, value: Value) -> Self {
        self.with(version, Step::Fill(field.to_owned(), value))
    }

    /// From this version to the next, anything else.
    ///
    /// What tasks of an open step wrote cannot go through such a step, so they are run again.
    #[must_use]
    pub fn step(
        self,
        version: u32,
        step: impl Fn(&mut Map<String, Value>) + Send + Sync + 'static,
    ) -> Self {
        self.with(version, Step::Custom(Arc::new(step)))
    }

    fn with(mut self, version: u32, step: Step) -> Self {
        self.steps.entry(version).or_default().push(step);
        self
    }

    fn between(&self, from: u32, to: u32) -> impl Iterator<Item = &Step> {
        self.steps.range(from..to.max(from)).flat_map(|(_, steps)| steps)
    }

    /// Brings stored fields from one version to another.
    pub(crate) fn apply(&self, from: u32, to: u32, values: &mut Map<String, Value>) {
        for step in self.between(from, to) {
            match step {
                Step::Rename(old, new) => {
                    if let Some(value) = values.remove(old) {
                        values.insert(new.clone(), value);
                    }
                }
                Step::Retype(field, convert) => {
                    if let Some(value) = values.get_mut(field) {
                        *value = convert(value.take());
                    }
                }
                Step::Fill(field, value) => {
                    values.entry(field.clone()).or_insert_with(|| value.clone());
                }
                Step::Custom(step) => step(values),
            }
        }
    }

    /// Brings stored writes from one version to another.
    ///
    /// `false`, and nothing is changed, if a step of the user's own is in the way: it works on whole states.
    pub(crate) fn apply_to_writes(&self, from: u32, to: u32, writes: &mut [FieldWrite]) -> bool {
        if self.between(from, to).any(|it| matches!(it, Step::Custom(_))) {
            return false;
        }
        for step in self.between(from, to) {
            for write in writes.iter_mut() {
                match step {
                    Step::Rename(old, new) if write.field == *old => write.field.clone_from(new),
                    Step::Retype(field, convert) if write.field == *field => {
                        write.value = convert(write.value.take());
                    }
                    _ => {}
                }
            }
        }
        true
    }
}

impl fmt::Debug for Migrations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Migrations").field("from", &self.steps.keys()).finish()
    }
}
