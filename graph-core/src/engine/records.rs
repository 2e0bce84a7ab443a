//! The records of a checkpoint: of the tasks of the step that follows it and, in an eager graph, of tasks of later
//! steps.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    checkpoint::{
        id::TaskId,
        record::{GotoRecord, TaskEvent, TaskRecord},
    },
    interrupt::Interrupt,
    state::field::FieldWrite,
};

/// All records of one checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) tasks: BTreeMap<TaskId, TaskLog>,
    /// Writes and gotos of each input command, in the order recorded.
    pub(crate) commands: Vec<(Vec<FieldWrite>, Vec<GotoRecord>)>,
}

/// All records of one task.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskLog {
    pub(crate) node: String,
    pub(crate) done: Option<(Vec<FieldWrite>, Vec<GotoRecord>)>,
    /// Error message, and whether the error handler took over.
    pub(crate) failed: Option<(String, bool)>,
    pub(crate) interrupts: Vec<Interrupt>,
    pub(crate) resume_values: Vec<Value>,
    pub(crate) effects: BTreeMap<String, Value>,
}

impl Records {
    pub(crate) fn new(records: Vec<TaskRecord>) -> Self {
        let mut all = Self::default();
        records.into_iter().for_each(|it| all.add(it));
        all
    }

    pub(crate) fn add(&mut self, record: TaskRecord) {
        let TaskRecord { task, node, event } = record;
        match event {
            // A command that only answers an interrupt.
            TaskEvent::Command { writes, gotos, .. } if writes.is_empty() && gotos.is_empty() => {}
            TaskEvent::Command { writes, gotos, .. } => self.commands.push((writes, gotos)),
            event => {
                let log = self.tasks.entry(task).or_default();
                log.node = node;
                log.add(event);
            }
        }
    }

    /// Returns records of the results and effects of all tasks.
    pub(crate) fn results_and_effects(&self) -> Vec<TaskRecord> {
        let mut records = Vec::new();
        for (task, log) in &self.tasks {
            let record = |event| TaskRecord { task: *task, node: log.node.clone(), event };
            let done = log.done.clone();
            records.extend(done.map(|(writes, gotos)| record(TaskEvent::Done { writes, gotos })));
            let effects = log.effects.clone().into_iter();
            records.extend(effects.map(|(key, result)| record(TaskEvent::Effect { key, result })));
        }
        records
    }

    /// Returns the interrupts that are waiting for a resume value.
    pub(crate) fn pending_interrupts(&self) -> impl Iterator<Item = &Interrupt> {
        // Interrupts that were raised before the error handler took over are obsolete.
        let waits = |it: &&TaskLog| it.done.is_none() && !it.is_handled();
        self.tasks.values().filter(waits).flat_map(|it| &it.interrupts)
    }

    /// Removes interrupts and resume values, so that the interrupts are raised again.
    pub(crate) fn clear_interrupts(&mut self) {
        for task in self.tasks.values_mut() {
            task.interrupts.clear();
            task.resume_values.clear();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.tasks.clear();
        self.commands.clear();
    }
}

impl TaskLog {
    /// Returns whether the task failed and its error handler took over.
    pub(crate) fn is_handled(&self) -> bool {
        matches!(self.failed, Some((_, true)))
    }

    fn add(&mut self, event: TaskEvent) {
        match event {
            TaskEvent::Done { writes, gotos } => self.done = Some((writes, gotos)),
            TaskEvent::Failed { error, handled } => self.failed = Some((error, handled)),
            TaskEvent::Interrupted { interrupts } => self.interrupts = interrupts,
            TaskEvent::Resumed { values } => self.resume_values = values,
            TaskEvent::Effect { key, result } => drop(self.effects.insert(key, result)),
            TaskEvent::Command { .. } => {}
        }
    }
}
