//! The data that all parts of a case share: the log and the models.

use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard},
};

use serde_json::{Map, Value};

use super::{
    log::{Log, SharedLog, lock},
    model::{CaseModel, replies},
};

/// The data that all parts of a case share.
#[derive(Debug, Default)]
pub(super) struct SharedData {
    pub(super) models: BTreeMap<String, Arc<CaseModel>>,
    log: SharedLog,
    parallel_handoffs: bool,
}

impl SharedData {
    /// Creates the shared data of a case from its models and from `scripts`, the description of the models.
    pub(super) fn new(
        log: SharedLog,
        models: BTreeMap<String, Arc<CaseModel>>,
        scripts: &Map<String, Value>,
    ) -> Self {
        let calls = scripts.values().flat_map(replies);
        let calls = calls.filter_map(|it| it["tool_calls"].as_array());
        let is_handoff =
            |call: &Value| call["name"].as_str().is_some_and(|it| it.starts_with("transfer_to_"));
        let parallel_handoffs =
            calls.into_iter().any(|it| it.len() > 1 && it.iter().any(is_handoff));
        Self { models, log, parallel_handoffs }
    }

    /// Returns whether a model calls a handoff tool beside another tool. `graph-agents` keeps the results of the other
    /// calls by default; the recorded behaviour loses them.
    pub(super) fn has_parallel_handoffs(&self) -> bool {
        self.parallel_handoffs
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
