//! Values that a run is resumed with, and data for time travel.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use serde_json::Value;

use crate::{checkpoint::id::CheckpointId, sync::lock};

/// The values that a run was resumed with. The run and its subgraphs share them.
#[derive(Debug, Default)]
pub(crate) struct ResumeValues {
    /// Value for the first interrupt raised in the run's first step.
    // A std mutex, because it is held briefly and never across an await.
    single: Mutex<Option<Value>>,
    by_id: BTreeMap<String, Value>,
}

impl ResumeValues {
    pub(crate) fn new(single: Option<Value>, by_id: BTreeMap<String, Value>) -> Self {
        Self { single: Mutex::new(single), by_id }
    }

    /// Returns the value for an interrupt, if there is one.
    pub(super) fn take(&self, interrupt: &str) -> Option<Value> {
        self.by_id.get(interrupt).cloned().or_else(|| lock(&self.single).take())
    }

    /// Drops the single value if no interrupt took it in the run's first step.
    pub(crate) fn end_first_step(&self) {
        lock(&self.single).take();
    }
}

/// Data for time travel. Present only in a run that continues from an older checkpoint.
///
/// When the run enters a subgraph for the first time, the subgraph starts from its newest checkpoint older than
/// `bound`.
#[derive(Debug)]
pub(crate) struct Replay {
    bound: CheckpointId,
    visited: Mutex<BTreeSet<String>>,
}

impl Replay {
    pub(crate) fn new(bound: CheckpointId) -> Self {
        Self { bound, visited: Mutex::default() }
    }

    /// Returns the bound for a subgraph that the run enters for the first time, and `None` for a later invocation.
    ///
    /// The task id at the end of `namespace` is ignored. It differs in each iteration of a loop, so later invocations
    /// would otherwise count as the first one.
    pub(crate) fn enter(&self, namespace: &str) -> Option<CheckpointId> {
        let stable = namespace.rsplit_once(':').map_or(namespace, |(stable, _)| stable);
        lock(&self.visited).insert(stable.to_owned()).then_some(self.bound)
    }
}
