//! Sends the engine's events to the stream. Event data is built only if its stream mode was requested.

use std::{sync::atomic::Ordering, time::Duration};

use serde_json::Value;

use crate::{
    checkpoint::record::GotoRecord,
    context::task::{NodeFailure, TaskContext, TaskKind},
    engine::running::Engine,
    error::NodeError,
    interrupt::Interrupt,
    state::{erased::ErasedState, field::FieldWrite},
    stream::{EventKind, EventOrigin, EventSender, StreamMode, Values},
};

/// An empty update event. As in LangGraph, it is sent for a task that was resumed and then failed.
pub(super) const EMPTY_UPDATE: EventKind =
    EventKind::Update { writes: Vec::new(), gotos: Vec::new(), cached: false, handler: false };

/// The result of a task, for an [`EventKind::TaskFinished`] event.
#[derive(Debug, Default)]
pub(super) struct TaskSummary {
    pub(super) writes: Vec<FieldWrite>,
    pub(super) error: Option<String>,
    pub(super) interrupts: Vec<Interrupt>,
    pub(super) gotos: Vec<GotoRecord>,
}

/// Reports that an attempt failed and will be retried after `wait`.
pub(crate) async fn emit_retried(task: &TaskContext, error: &NodeError, wait: Duration) {
    if task.scope.events.is_some() {
        let attempt = task.attempt.load(Ordering::Relaxed);
        task.send_event(EventKind::Retried { attempt, error: error.to_string(), wait }).await;
    }
}

/// Reports the failure of a task whose error handler runs next.
pub(crate) async fn emit_task_failed(task: &TaskContext, failure: &NodeFailure) {
    if task.scope.events.is_some() {
        if !task.resume_values().is_empty() {
            task.send_event(EMPTY_UPDATE).await;
        }
        let kind = EventKind::TaskFinished {
            writes: Vec::new(),
            error: Some(failure.error.clone()),
            interrupts: Vec::new(),
            gotos: Vec::new(),
            handler: false,
        };
        task.send_event(kind).await;
    }
}

impl Engine {
    pub(super) fn sender(&self, mode: StreamMode) -> Option<&EventSender> {
        self.scope.events.as_ref().filter(|it| it.accepts(mode))
    }

    /// Sends an event with `state`. If a step was interrupted, `state` is a copy of the run's state that includes the
    /// writes of the step's finished tasks. Otherwise it is the run's state itself.
    pub(super) async fn emit_values(&self, state: &dyn ErasedState, output: bool) {
        if let Some(sender) = self.sender(StreamMode::Values) {
            let values = Values::new(state.snapshot(), state.to_json_fn(), output);
            sender.send(EventOrigin::step(self.step), EventKind::Values(values)).await;
        }
    }

    /// Sends an event for the checkpoint that the next step starts from.
    pub(super) async fn emit_checkpoint(&self, next: impl FnOnce() -> Vec<String>) {
        let Some(sender) = self.sender(StreamMode::Checkpoints) else { return };
        if self.scope.writer.is_none() {
            return;
        }
        let values = self.state.json(|_| true).unwrap_or(Value::Null);
        let kind = EventKind::Checkpoint {
            id: self.id,
            parent: self.parent,
            source: self.source,
            values,
            next: next(),
        };
        sender.send(EventOrigin::step(self.step - 1), kind).await;
    }

    pub(super) async fn emit_task_started(
        &self,
        task: &TaskContext,
        input: impl FnOnce() -> Value,
    ) {
        if self.sender(StreamMode::Tasks).is_some() {
            let sent = matches!(task.kind, TaskKind::Push(_));
            task.send_event(EventKind::TaskStarted { input: input(), sent }).await;
        }
    }

    /// Sends an event with the writes of a task.
    pub(super) async fn emit_update(
        &self,
        task: &TaskContext,
        writes: &[FieldWrite],
        gotos: &[GotoRecord],
        cached: bool,
        handler: bool,
    ) {
        if self.sender(StreamMode::Updates).is_some() {
            let (writes, gotos) = (writes.to_vec(), gotos.to_vec());
            task.send_event(EventKind::Update { writes, gotos, cached, handler }).await;
        }
    }

    pub(super) async fn emit_task_finished(
        &self,
        task: &TaskContext,
        end: TaskSummary,
        handler: bool,
    ) {
        if self.sender(StreamMode::Tasks).is_some() {
            let TaskSummary { writes, error, interrupts, gotos } = end;
            let kind = EventKind::TaskFinished { writes, error, interrupts, gotos, handler };
            task.send_event(kind).await;
        }
    }

    pub(super) async fn emit_interrupts(&self, interrupts: Vec<Interrupt>) {
        if let Some(sender) = self.sender(StreamMode::Updates) {
            sender.send(EventOrigin::step(self.step), EventKind::Interrupted(interrupts)).await;
        }
    }
}
