//! Records the outcome of each task in the checkpointer and the cache, and reports the outcome on the stream.

use std::sync::Arc;

use crate::{
    cache::CachedResult,
    checkpoint::{
        record::{GotoRecord, TaskEvent, TaskRecord},
        writer::Durability,
    },
    context::task::{NodeFailure, TaskContext},
    engine::{
        events::{EMPTY_UPDATE, TaskSummary},
        execute::{TaskOutcome, TaskOutput, TaskReport, run_error},
        running::Engine,
        step::Slot,
    },
    error::{Halt, RunError},
    state::{
        field::{FieldError, FieldWrite},
        limits,
    },
};

impl Engine {
    pub(super) fn writes_of(&self, done: &TaskOutput) -> Result<Vec<FieldWrite>, RunError> {
        let mut writes = Vec::new();
        for update in &done.updates {
            writes.extend(self.state.writes(update)?);
        }
        Ok(writes)
    }

    /// Returns the writes of a task, or an error if they are too large or too deeply nested to be stored.
    pub(super) fn checked_writes(&self, done: &TaskOutput) -> Result<Vec<FieldWrite>, RunError> {
        let writes = self.writes_of(done)?;
        if self.scope.writer.is_some() {
            self.check_size(&writes)?;
        }
        Ok(writes)
    }

    /// Checks that the writes are small and shallow enough to be stored.
    pub(super) fn check_size(&self, writes: &[FieldWrite]) -> Result<(), FieldError> {
        let limit = self.graph.max_stored_bytes;
        writes.iter().try_for_each(|it| limits::check_storable(&it.field, &it.value, limit))
    }

    /// Stores the outcome in the slot and records it. If the node's routers have not been called yet, the commit calls
    /// them and records the outcome later.
    pub(super) async fn finish_task(
        &mut self,
        slot: &mut Slot,
        report: TaskReport,
    ) -> Result<(), RunError> {
        let TaskReport { mut outcome, handled } = report;
        if let TaskOutcome::Done(done) = &mut outcome {
            done.routed |= !self.graph.has_routers(slot.plan.node);
            if !done.routed {
                // The commit will call the routers and then `record_task_end`.
                slot.outcome = Some(outcome);
                return Ok(());
            }
        }
        if self.is_observed() || slot.cache_key.is_some() {
            let written = match &outcome {
                TaskOutcome::Done(done) => self.checked_writes(done),
                _ => Ok(Vec::new()),
            };
            let writes = written.unwrap_or_else(|error| {
                outcome = TaskOutcome::Failed(Box::new(error));
                Vec::new()
            });
            self.record_task_end(slot, &outcome, writes, handled.as_deref()).await?;
        }
        slot.outcome = Some(outcome);
        Ok(())
    }

    /// Returns whether the run has a checkpointer or a stream reader.
    pub(super) fn is_observed(&self) -> bool {
        self.scope.writer.is_some() || self.scope.events.is_some()
    }

    /// Records the end of a task in the checkpointer and the cache, and sends its events.
    pub(super) async fn record_task_end(
        &mut self,
        slot: &Slot,
        outcome: &TaskOutcome,
        writes: Vec<FieldWrite>,
        handled: Option<&(NodeFailure, Arc<TaskContext>)>,
    ) -> Result<(), RunError> {
        let mut records = Vec::new();
        if let Some((failure, _)) = handled {
            let event = TaskEvent::Failed { error: failure.error.clone(), handled: true };
            records.push(slot.cx.record(event));
        }
        let task = handled.map_or(&slot.cx, |(_, handler)| handler);
        match outcome {
            TaskOutcome::Done(done) => {
                let targets = done.targets.iter().map(|it| it.to_record(&self.graph));
                let gotos = targets.collect::<Result<Vec<_>, _>>()?;
                // The output of an error handler is not cached.
                if let (None, Some(key), Some(cache)) =
                    (handled, &slot.cache_key, &self.scope.cache)
                {
                    let policy = self.graph.node(slot.plan.node).options.cache;
                    let result = CachedResult { writes: writes.clone(), gotos: gotos.clone() };
                    cache.put((**key).clone(), result, policy.unwrap_or_default().ttl).await;
                }
                if slot.plan.node != self.graph.start {
                    self.emit_update(task, &writes, &gotos, false, done.handled).await;
                    let shown = TaskSummary {
                        writes: writes.clone(),
                        gotos: gotos.clone(),
                        ..TaskSummary::default()
                    };
                    self.emit_task_finished(task, shown, done.handled).await;
                }
                records.push(task.record(self.done_event(writes, gotos)));
            }
            TaskOutcome::Failed(error) => {
                let error = task_error(error);
                if self.scope.events.is_some() && !task.resume_values().is_empty() {
                    task.send_event(EMPTY_UPDATE).await;
                }
                let shown =
                    TaskSummary { writes, error: Some(error.clone()), ..TaskSummary::default() };
                self.emit_task_finished(task, shown, handled.is_some()).await;
                records.push(task.record(TaskEvent::Failed { error, handled: false }));
                records.extend(resume_record(task));
            }
            TaskOutcome::Interrupted(interrupts) => {
                let raised = interrupts.clone();
                self.emit_interrupts(raised.clone()).await;
                let shown =
                    TaskSummary { writes, interrupts: raised.clone(), ..TaskSummary::default() };
                self.emit_task_finished(task, shown, handled.is_some()).await;
                records.push(task.record(TaskEvent::Interrupted { interrupts: raised }));
                records.extend(resume_record(task));
            }
            TaskOutcome::ParentCommand(_) | TaskOutcome::Stopped(_) => {}
        }
        self.record(records).await
    }

    /// Returns the event that records a finished task, without its writes to untracked fields.
    pub(super) fn done_event(
        &self,
        mut writes: Vec<FieldWrite>,
        gotos: Vec<GotoRecord>,
    ) -> TaskEvent {
        self.strip_untracked(&mut writes);
        TaskEvent::Done { writes, gotos }
    }

    pub(super) fn strip_untracked(&self, writes: &mut Vec<FieldWrite>) {
        let untracked = &self.graph.untracked;
        if !untracked.is_empty() {
            let fields = self.state.fields();
            writes.retain(|it| !untracked.iter().any(|field| fields[field].name == it.field));
        }
    }

    /// Records task events. With async durability, they are queued immediately. Otherwise they are buffered until the
    /// next flush, the next checkpoint or the end of the run.
    pub(super) async fn record(&mut self, records: Vec<TaskRecord>) -> Result<(), RunError> {
        match &self.scope.writer {
            None => {}
            Some(writer) if writer.durability != Durability::Async => {
                self.buffered_records.extend(records);
            }
            Some(_) if records.is_empty() => {}
            Some(writer) => writer.record(self.checkpoint_key(), records).await?,
        }
        Ok(())
    }

    /// Records the failure of a router as the failure of its task.
    pub(super) async fn record_routing_failure(&mut self, slot: &Slot, halt: Halt) -> RunError {
        let Halt::Failed { source, terminal } = halt else {
            return RunError::InvalidUpdate("a branch cannot interrupt".to_owned());
        };
        let error = run_error(&slot.cx, source, terminal);
        self.record_late_failure(slot, error).await
    }

    /// Records a failure that occurred after the node itself had finished.
    pub(super) async fn record_late_failure(&mut self, slot: &Slot, error: RunError) -> RunError {
        if self.is_observed() {
            let outcome = TaskOutcome::Failed(Box::new(error.clone()));
            if let Err(error) = self.record_task_end(slot, &outcome, Vec::new(), None).await {
                return error;
            }
        }
        error
    }
}

fn resume_record(task: &TaskContext) -> Option<TaskRecord> {
    // An empty list is recorded too, because it replaces values that did not have the expected type.
    task.has_memory().then(|| task.record(TaskEvent::Resumed { values: task.resume_values() }))
}

/// Returns the message to record for a failed task. It is the node's own error, without the node name and the step.
fn task_error(error: &RunError) -> String {
    match error {
        RunError::Node { error, .. } => error.to_string(),
        error => error.to_string(),
    }
}
