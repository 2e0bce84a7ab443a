//! Note: how tasks ended, for the record, for the cache, and for who watches.

use std::sync::Arc;

use super::{
    Engine,
    events::{EMPTY_UPDATE, Shown},
    execute::{Done, Report, TaskEnd, failure},
    persist::Durability,
    step::Slot,
};
use crate::{
    FieldWrite, RunError,
    cache::Cached,
    checkpoint::{Event, GotoRecord, TaskRecord},
    context::{Failure, TaskContext},
    error::Halt,
    state::{FieldError, guard},
};

impl Engine {
    pub(super) fn writes_of(&self, done: &Done) -> Result<Vec<FieldWrite>, RunError> {
        let mut writes = Vec::new();
        for update in &done.updates {
            writes.extend(self.state.writes(update)?);
        }
        Ok(writes)
    }

    /// What a task wrote, if it can be stored.
    pub(super) fn checked_writes(&self, done: &Done) -> Result<Vec<FieldWrite>, RunError> {
        let writes = self.writes_of(done)?;
        if self.scope.writer.is_some() {
            self.check_size(&writes)?;
        }
        Ok(writes)
    }

    /// Whether writes can be stored.
    pub(super) fn check_size(&self, writes: &[FieldWrite]) -> Result<(), FieldError> {
        let limit = self.scope.graph.max_stored_bytes;
        writes.iter().try_for_each(|it| guard::check(&it.field, &it.value, limit))
    }

    /// Notes how a task ended, unless its routers have still to be asked.
    pub(super) async fn finish(&mut self, slot: &mut Slot, report: Report) -> Result<(), RunError> {
        let Report { mut end, handled } = report;
        if let TaskEnd::Done(done) = &mut end {
            done.routed |= !self.scope.graph.has_routers(slot.plan.node);
            if !done.routed {
                // The commit asks them, and then comes back to `note`.
                slot.end = Some(end);
                return Ok(());
            }
        }
        if self.is_watched() || slot.cache_key.is_some() {
            let written = match &end {
                TaskEnd::Done(done) => self.checked_writes(done),
                _ => Ok(Vec::new()),
            };
            let writes = written.unwrap_or_else(|error| {
                end = TaskEnd::Failed(Box::new(error));
                Vec::new()
            });
            self.note(slot, &end, writes, handled.as_deref()).await?;
        }
        slot.end = Some(end);
        Ok(())
    }

    /// Whether anybody wants to know what tasks do: a checkpointer, or a reader of the stream.
    pub(super) fn is_watched(&self) -> bool {
        self.scope.writer.is_some() || self.scope.events.is_some()
    }

    /// Notes how a task ended: for the record, for the cache, and for who watches.
    pub(super) async fn note(
        &mut self,
        slot: &Slot,
        end: &TaskEnd,
        writes: Vec<FieldWrite>,
        handled: Option<&(Failure, Arc<TaskContext>)>,
    ) -> Result<(), RunError> {
        let mut records = Vec::new();
        if let Some((failure, _)) = handled {
            let event = Event::Failed { error: failure.error.clone(), handled: true };
            records.push(slot.cx.record(event));
        }
        let task = handled.map_or(&slot.cx, |(_, handler)| handler);
        match end {
            TaskEnd::Done(done) => {
                let hops = done.hops.iter().map(|it| it.to_record(&self.scope.graph));
                let gotos = hops.collect::<Result<Vec<_>, _>>()?;
                // What a handler made of a failure is no result of the node.
                if let (None, Some(key), Some(cache)) =
                    (handled, &slot.cache_key, &self.scope.cache)
                {
                    let policy = self.scope.graph.node(slot.plan.node).options.cache;
                    let result = Cached { writes: writes.clone(), gotos: gotos.clone() };
                    cache.put((**key).clone(), result, policy.unwrap_or_default().ttl).await;
                }
                if slot.plan.node != self.scope.graph.start {
                    self.show_update(task, &writes, &gotos, false, done.handled).await;
                    let shown =
                        Shown { writes: writes.clone(), gotos: gotos.clone(), ..Shown::default() };
                    self.show_end(task, shown, done.handled).await;
                }
                records.push(task.record(self.done_event(writes, gotos)));
            }
            TaskEnd::Failed(error) => {
                let error = task_error(error);
                if let Some(sink) = &self.scope.events
                    && !task.given_answers().is_empty()
                {
                    sink.task_event(task, EMPTY_UPDATE).await;
                }
                let shown = Shown { writes, error: Some(error.clone()), ..Shown::default() };
                self.show_end(task, shown, handled.is_some()).await;
                records.push(task.record(Event::Failed { error, handled: false }));
                records.extend(answered(task));
            }
            TaskEnd::Asked(interrupts) => {
                let asked = interrupts.clone();
                self.show_interrupts(asked.clone()).await;
                let shown = Shown { writes, interrupts: asked.clone(), ..Shown::default() };
                self.show_end(task, shown, handled.is_some()).await;
                records.push(task.record(Event::Asked { interrupts: asked }));
                records.extend(answered(task));
            }
            TaskEnd::Parent(_) | TaskEnd::Stopped(_) => {}
        }
        self.record(records).await
    }

    /// The record of a finished task, without what is never stored.
    pub(super) fn done_event(&self, mut writes: Vec<FieldWrite>, gotos: Vec<GotoRecord>) -> Event {
        self.strip_untracked(&mut writes);
        Event::Done { writes, gotos }
    }

    pub(super) fn strip_untracked(&self, writes: &mut Vec<FieldWrite>) {
        let untracked = &self.scope.graph.untracked;
        if !untracked.is_empty() {
            let fields = self.state.fields();
            writes.retain(|it| !untracked.iter().any(|field| fields[field].name == it.field));
        }
    }

    /// Records what happened to tasks: now, with the next checkpoint or before the next wait, or when the run ends.
    pub(super) async fn record(&mut self, records: Vec<TaskRecord>) -> Result<(), RunError> {
        match &self.scope.writer {
            None => {}
            Some(writer) if writer.durability != Durability::Async => {
                self.late_records.extend(records);
            }
            Some(_) if records.is_empty() => {}
            Some(writer) => writer.record(self.place(), records).await?,
        }
        Ok(())
    }

    /// A router that fails fails its node: nothing of the task is recorded but the error.
    pub(super) async fn routing_failed(&mut self, slot: &Slot, halt: Halt) -> RunError {
        let Halt::Failed { source, terminal } = halt else {
            return RunError::InvalidUpdate("a branch cannot ask questions".to_owned());
        };
        let error = failure(&slot.cx, source, terminal);
        self.failed_late(slot, error).await
    }

    /// Notes the failure of a task that its body had already left.
    pub(super) async fn failed_late(&mut self, slot: &Slot, error: RunError) -> RunError {
        if self.is_watched() {
            let end = TaskEnd::Failed(Box::new(error.clone()));
            if let Err(error) = self.note(slot, &end, Vec::new(), None).await {
                return error;
            }
        }
        error
    }
}

fn answered(task: &TaskContext) -> Option<TaskRecord> {
    // An empty list too: it takes the place of answers that did not fit.
    task.has_memory().then(|| task.record(Event::Answered { answers: task.given_answers() }))
}

/// A task's error as it is recorded: the node's own words, without where and when.
fn task_error(error: &RunError) -> String {
    match error {
        RunError::Node { error, .. } => error.to_string(),
        error => error.to_string(),
    }
}
