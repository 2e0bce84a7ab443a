//! The records of tasks that ran ahead: each checkpoint before their step contains them.

use std::collections::BTreeSet;

use crate::{
    checkpoint::{id::TaskId, record::TaskRecord},
    context::task::TaskKind,
    engine::{running::Engine, step_task::StepTask},
};

impl Engine {
    /// Returns the records of tasks of later steps, which the next checkpoint has to contain as well.
    pub(in crate::engine) fn records_ahead(&mut self) -> Vec<TaskRecord> {
        let Some(target) = &self.scope.record_target else { return Vec::new() };
        // From now on, running tasks store their records under the new checkpoint, too.
        target.begin(self.history.id);
        let mut records = self.records.results_and_effects();
        if let Some(ahead) = &self.ahead {
            for task in ahead.iter().filter(|it| it.output().is_none()) {
                records.extend(task.cx.effect_records());
            }
        }
        records
    }

    /// Drops the records of the tasks of the current step after the step was committed.
    pub(in crate::engine) fn drop_committed_records(&mut self, tasks: &[StepTask]) {
        if self.ahead.is_some() && !self.records.tasks.is_empty() {
            for id in self.record_ids(tasks) {
                self.records.tasks.remove(&id);
            }
        }
    }

    /// Ignores the recorded results of tasks of later steps, because the state that they were computed from changes.
    pub(in crate::engine) fn ignore_records_ahead(&mut self) {
        if let Some(ahead) = &mut self.ahead {
            ahead.uses_records = false;
        }
    }

    /// Drops the results of tasks of later steps if they no longer apply, because the run changed the state that they
    /// were computed from.
    pub(in crate::engine) fn drop_stale_records(&mut self, tasks: &[StepTask]) {
        let Some(ahead) = &mut self.ahead else { return };
        if !std::mem::replace(&mut ahead.uses_records, true) {
            let ids = self.record_ids(tasks);
            self.records.tasks.retain(|id, _| ids.contains(id));
        }
    }

    /// Returns the ids under which tasks of the current step and their error handlers are recorded.
    fn record_ids(&self, tasks: &[StepTask]) -> BTreeSet<TaskId> {
        let handler =
            |it: &StepTask| self.task_context(it.plan.node, TaskKind::Handler(it.cx.id())).id();
        tasks.iter().flat_map(|it| [it.cx.id(), handler(it)]).collect()
    }
}
