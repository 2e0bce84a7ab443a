//! Records: what is known of the tasks of the step that follows a checkpoint.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    FieldWrite, Interrupt,
    checkpoint::{Event, GotoRecord, TaskId, TaskRecord},
};

/// All that was recorded after one checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) tasks: BTreeMap<TaskId, TaskLog>,
    /// Commands given as input, in order: what they write and where they go.
    pub(crate) commands: Vec<(Vec<FieldWrite>, Vec<GotoRecord>)>,
}

/// What was recorded of one task.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskLog {
    pub(crate) done: Option<(Vec<FieldWrite>, Vec<GotoRecord>)>,
    /// The error, and whether a handler took over.
    pub(crate) failed: Option<(String, bool)>,
    pub(crate) asked: Vec<Interrupt>,
    pub(crate) answers: Vec<Value>,
    pub(crate) effects: BTreeMap<String, Value>,
}

impl Records {
    pub(crate) fn new(records: Vec<TaskRecord>) -> Self {
        let mut all = Self::default();
        for TaskRecord { task, event, .. } in records {
            match event {
                Event::Command { writes, gotos, .. } => all.commands.push((writes, gotos)),
                event => all.tasks.entry(task).or_default().add(event),
            }
        }
        all
    }

    /// Questions that still wait for an answer.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Interrupt> {
        // What a node asked before its handler took over is asked no more.
        let waits = |it: &&TaskLog| it.done.is_none() && !it.is_handled();
        self.tasks.values().filter(waits).flat_map(|it| &it.asked)
    }

    /// Forgets questions and answers, so that they are asked again.
    pub(crate) fn forget_answers(&mut self) {
        for task in self.tasks.values_mut() {
            task.asked.clear();
            task.answers.clear();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.tasks.clear();
        self.commands.clear();
    }
}

impl TaskLog {
    /// Whether the task failed and its handler took over.
    pub(crate) fn is_handled(&self) -> bool {
        matches!(self.failed, Some((_, true)))
    }

    fn add(&mut self, event: Event) {
        match event {
            Event::Done { writes, gotos } => self.done = Some((writes, gotos)),
            Event::Failed { error, handled } => self.failed = Some((error, handled)),
            Event::Asked { interrupts } => self.asked = interrupts,
            Event::Answered { answers } => self.answers = answers,
            Event::Effect { key, result } => drop(self.effects.insert(key, result)),
            Event::Command { .. } => {}
        }
    }
}
