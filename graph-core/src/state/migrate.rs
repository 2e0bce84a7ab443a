//! Migrations: bringing stored state to the version a program knows.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::{Map, Value};

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

type Step = Arc<dyn Fn(&mut Map<String, Value>) + Send + Sync>;

impl Migrations {
    /// No step at all.
    pub fn new() -> Self {
        Self { steps: BTreeMap::new() }
    }

    /// From this version to the next, a field gets another name.
    #[must_use]
    pub fn rename(self, version: u32, from: &str, to: &str) -> Self {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.step(version, move |values| {
            if let Some(value) = values.remove(&from) {
                values.insert(to.clone(), value);
            }
        })
    }

    /// From this version to the next, a field gets another type.
    #[must_use]
    pub fn retype(
        self,
        version: u32,
        field: &str,
        convert: impl Fn(Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        let field = field.to_owned();
        self.step(version, move |values| {
            if let Some(value) = values.get_mut(&field) {
                *value = convert(value.take());
            }
        })
    }

    /// From this version to the next, a field that is not there gets this value.
    #[must_use]
    pub fn fill(self, version: u32, field: &str, value: Value) -> Self {
        let field = field.to_owned();
        self.step(version, move |values| {
            values.entry(field.clone()).or_insert_with(|| value.clone());
        })
    }

    /// From this version to the next, anything else.
    #[must_use]
    pub fn step(
        mut self,
        version: u32,
        step: impl Fn(&mut Map<String, Value>) + Send + Sync + 'static,
    ) -> Self {
        self.steps.entry(version).or_default().push(Arc::new(step));
        self
    }

    /// Brings stored fields from one version to another.
    pub(crate) fn apply(&self, from: u32, to: u32, values: &mut Map<String, Value>) {
        for step in self.steps.range(from..to.max(from)).flat_map(|(_, steps)| steps) {
            step(values);
        }
    }
}

impl fmt::Debug for Migrations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Migrations").field("from", &self.steps.keys()).finish()
    }
}
