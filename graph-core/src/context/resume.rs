//! Values that a run is resumed with, and data for time travel.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
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
    /// Namespaces of the pending interrupts, by interrupt id.
    namespaces: BTreeMap<String, String>,
}

impl ResumeValues {
    pub(crate) fn new(
        single: Option<Value>,
        by_id: BTreeMap<String, Value>,
        namespaces: BTreeMap<String, String>,
    ) -> Self {
        Self { single: Mutex::new(single), by_id, namespaces }
    }

    /// Returns the values for interrupts in the namespaces that `is_inside` accepts. Values whose interrupt is not
    /// pending are included, because time travel raises interrupts again.
    pub(crate) fn inside(&self, is_inside: impl Fn(&str) -> bool) -> InnerResumeValues {
        // A run can be resumed with a single value only if at most one interrupt is pending.
        let pending = self.namespaces.iter().find(|(_, namespace)| is_inside(namespace));
        let may_take_single = self.namespaces.is_empty() || pending.is_some();
        let single = lock(&self.single).clone().filter(|_| may_take_single);
        let answered_interrupt = pending.map(|(id, _)| id.clone()).filter(|_| single.is_some());
        let is_wanted = |id: &String| self.namespaces.get(id).is_none_or(|it| is_inside(it));
        let by_id = self.by_id.iter().filter(|(id, _)| is_wanted(id));
        let by_id = by_id.map(|(id, value)| (id.clone(), value.clone())).collect();
        InnerResumeValues { single, answered_interrupt, by_id }
    }

    /// Returns whether the single value is still available.
    pub(crate) fn has_single(&self) -> bool {
        lock(&self.single).is_some()
    }

    /// Returns the value for an interrupt, if there is one. The single value is returned only once.
    pub(super) fn take(&self, interrupt: &str) -> Option<Value> {
        self.by_id.get(interrupt).cloned().or_else(|| lock(&self.single).take())
    }

    /// Returns the value that was given for an interrupt by its id, if there is one.
    pub(super) fn get(&self, interrupt: &str) -> Option<Value> {
        self.by_id.get(interrupt).cloned()
    }

    /// Drops the single value. Called at the end of the run's first step, and after an interrupt in another process has
    /// taken the value.
    pub(crate) fn drop_single(&self) {
        lock(&self.single).take();
    }
}

/// The resume values for a subgraph that runs in another process.
pub(crate) struct InnerResumeValues {
    /// Value for the first interrupt raised in the subgraph.
    pub(crate) single: Option<Value>,
    /// Id of the pending interrupt that `single` answers, if that interrupt was raised inside the subgraph.
    pub(crate) answered_interrupt: Option<String>,
    pub(crate) by_id: BTreeMap<String, Value>,
}

/// Data for time travel. Present only in a run that continues from an older checkpoint.
///
/// When the run enters a subgraph for the first time, the subgraph starts from its newest checkpoint older than
/// `bound`. The bound is the checkpoint of the innermost enclosing graph that continues from an addressed checkpoint,
/// or the parent of that checkpoint if it was created by an edit.
#[derive(Debug)]
pub(crate) struct Replay {
    bound: CheckpointId,
    /// The subgraphs that the run has entered. All graphs of the run share this set.
    visited: Arc<Mutex<BTreeSet<String>>>,
}

impl Replay {
    pub(crate) fn new(bound: CheckpointId, visited: BTreeSet<String>) -> Self {
        Self { bound, visited: Arc::new(Mutex::new(visited)) }
    }

    /// Returns the data with another bound, for the graphs inside a subgraph that continues from an addressed
    /// checkpoint.
    pub(crate) fn with_bound(&self, bound: CheckpointId) -> Self {
        Self { bound, visited: self.visited.clone() }
    }

    pub(crate) fn bound(&self) -> CheckpointId {
        self.bound
    }

    /// Returns the subgraphs that the run has entered.
    pub(crate) fn visited(&self) -> BTreeSet<String> {
        lock(&self.visited).clone()
    }

    /// Adds subgraphs that the run has entered in another process.
    pub(crate) fn add_visited(&self, visited: impl IntoIterator<Item = String>) {
        lock(&self.visited).extend(visited);
    }

    /// Returns the bound for a subgraph that the run enters for the first time, and `None` for a later invocation.
    ///
    /// The task id at the end of `namespace` is ignored. It differs in each iteration of a loop, so later invocations
    /// would otherwise count as the first one.
    pub(crate) fn enter(&self, namespace: &str) -> Option<CheckpointId> {
        let stable = Self::stable(namespace);
        lock(&self.visited).insert(stable.to_owned()).then_some(self.bound)
    }

    /// Returns a namespace without the task id at its end.
    pub(crate) fn stable(namespace: &str) -> &str {
        namespace.rsplit_once(':').map_or(namespace, |(stable, _)| stable)
    }
}
