//! Migrations: upgrading stored states to the current version.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::{Map, Value};

use crate::state::field::FieldWrite;

/// A set of migrations, which upgrade stored states from older versions.
///
/// A state declares its version with `#[state(version = 3)]`. When a checkpoint of an older version is loaded, the
/// migrations for that version and for all later versions are applied in order.
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
#[must_use]
pub struct Migrations {
    /// The migrations, keyed by the version that they upgrade from.
    steps: BTreeMap<u32, Vec<Step>>,
}

/// A single migration.
#[derive(Clone)]
enum Step {
    Rename(String, String),
    Retype(String, Arc<dyn Fn(Value) -> Value + Send + Sync>),
    Fill(String, Value),
    Remove(String),
    RenameNode(String, String),
    Custom(Arc<dyn Fn(&mut Map<String, Value>) + Send + Sync>),
}

impl Step {
    fn apply(&self, values: &mut Map<String, Value>) {
        match self {
            Self::Rename(old, new) => {
                if let Some(value) = values.remove(old) {
                    values.insert(new.clone(), value);
                }
            }
            Self::Retype(field, convert) => {
                if let Some(value) = values.get_mut(field) {
                    *value = convert(value.take());
                }
            }
            Self::Fill(field, value) => {
                values.entry(field.clone()).or_insert_with(|| value.clone());
            }
            Self::Remove(field) => drop(values.remove(field)),
            Self::RenameNode(..) => {}
            Self::Custom(migrate) => migrate(values),
        }
    }
}

impl Migrations {
    /// Creates an empty set of migrations.
    pub fn new() -> Self {
        Self { steps: BTreeMap::new() }
    }

    /// Renames a field when upgrading from `version` to the next one.
    pub fn rename(self, version: u32, from: &str, to: &str) -> Self {
        self.with(version, Step::Rename(from.to_owned(), to.to_owned()))
    }

    /// Converts a field's value when upgrading from `version` to the next one.
    pub fn retype(
        self,
        version: u32,
        field: &str,
        convert: impl Fn(Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        self.with(version, Step::Retype(field.to_owned(), Arc::new(convert)))
    }

    /// Sets a missing field to `value` when upgrading from `version` to the next one.
    pub fn fill(self, version: u32, field: &str, value: Value) -> Self {
        self.with(version, Step::Fill(field.to_owned(), value))
    }

    /// Removes a field when upgrading from `version` to the next one.
    pub fn remove(self, version: u32, field: &str) -> Self {
        self.with(version, Step::Remove(field.to_owned()))
    }

    /// Renames a node when upgrading from `version` to the next one. The thread continues at the renamed node, and
    /// its pending interrupts stay pending. If the node is an unfinished subgraph, the subgraph starts again.
    pub fn rename_node(self, version: u32, from: &str, to: &str) -> Self {
        self.with(version, Step::RenameNode(from.to_owned(), to.to_owned()))
    }

    /// Applies `migrate` to the fields of the state when upgrading from `version` to the next one.
    ///
    /// The function works on whole states, so it cannot upgrade the recorded writes of an unfinished step. The tasks of
    /// such a step run again. For pending input, the function is called with the fields of the input.
    pub fn custom(
        self,
        version: u32,
        migrate: impl Fn(&mut Map<String, Value>) + Send + Sync + 'static,
    ) -> Self {
        self.with(version, Step::Custom(Arc::new(migrate)))
    }

    fn with(mut self, version: u32, step: Step) -> Self {
        self.steps.entry(version).or_default().push(step);
        self
    }

    fn between(&self, from: u32, to: u32) -> impl Iterator<Item = &Step> {
        self.steps.range(from..to.max(from)).flat_map(|(_, steps)| steps)
    }

    /// Upgrades the stored fields of a state in place.
    pub(crate) fn apply(&self, from: u32, to: u32, values: &mut Map<String, Value>) {
        for step in self.between(from, to) {
            step.apply(values);
        }
    }

    /// Returns the old and the new name of each renamed node.
    pub(crate) fn renamed_nodes(&self, from: u32, to: u32) -> impl Iterator<Item = (&str, &str)> {
        self.between(from, to).filter_map(|step| match step {
            Step::RenameNode(old, new) => Some((old.as_str(), new.as_str())),
            _ => None,
        })
    }

    /// Upgrades the writes of an input in place. `writes` must contain each field at most once.
    pub(crate) fn apply_to_input(&self, from: u32, to: u32, writes: &mut Vec<FieldWrite>) {
        if self.apply_to_writes(from, to, writes) {
            return;
        }
        let overwritten: Vec<_> = writes.iter().filter(|it| it.overwrite).cloned().collect();
        let mut values = writes.drain(..).map(|it| (it.field, it.value)).collect();
        // A field that the input does not write must not be filled.
        for step in self.between(from, to).filter(|it| !matches!(it, Step::Fill(..))) {
            step.apply(&mut values);
        }
        writes.extend(values.into_iter().map(|(field, value)| {
            let overwrite = overwritten.iter().any(|it| it.field == field);
            FieldWrite { field, value, overwrite }
        }));
    }

    /// Upgrades stored writes in place.
    ///
    /// Returns `false` and changes nothing if a custom migration applies, because custom migrations work only on whole
    /// states.
    pub(crate) fn apply_to_writes(&self, from: u32, to: u32, writes: &mut Vec<FieldWrite>) -> bool {
        if self.between(from, to).any(|it| matches!(it, Step::Custom(_))) {
            return false;
        }
        for step in self.between(from, to) {
            if let Step::Remove(field) = step {
                writes.retain(|it| it.field != *field);
            }
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
