//! The data that all parts of a case share: the log and the models.

use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard},
};

use serde_json::Value;

use super::{
    log::{Log, SharedLog, lock},
    model::CaseModel,
};

/// The data that all parts of a case share.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) models: BTreeMap<String, Arc<CaseModel>>,
    log: SharedLog,
}

impl World {
    pub(super) fn new(log: SharedLog, models: BTreeMap<String, Arc<CaseModel>>) -> Self {
        Self { models, log }
    }

    pub(super) fn log(&self) -> MutexGuard<'_, Log> {
        lock(&self.log)
    }

    pub(super) fn model(&self, name: &str) -> Arc<CaseModel> {
        self.models.get(name).unwrap_or_else(|| panic!("the case has no model `{name}`")).clone()
    }

    pub(super) fn trace(&self, entry: String) {
        self.log().trace.push(Value::from(entry));
    }

    /// Counts an execution of a `fail` operation. Returns the number of executions so far, including this one.
    pub(super) fn count_failure(&self, key: &str) -> u64 {
        let mut log = self.log();
        let count = log.failures.entry(key.to_owned()).or_default();
        *count += 1;
        *count
    }
}
