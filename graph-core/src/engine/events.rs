//! Events: what the engine tells those who watch. Nothing is made that nobody asked for.

use std::{sync::atomic::Ordering, time::Duration};

use serde_json::Value;

use super::Engine;
use crate::{
    FieldWrite, Interrupt, NodeError,
    checkpoint::GotoRecord,
    context::{Failure, TaskContext, TaskKind},
    state::erased::ErasedState,
    stream::{EventKind, Mode, Sink, Values},
};

/// What a task shows that was answered and then failed, as LangGraph does.
pub(super) const EMPTY_UPDATE: EventKind =
    EventKind::Update { writes: Vec::new(), gotos: Vec::new(), cached: false, handler: false };

/// How a task ended, for who watches.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) writes: Vec<FieldWrite>,
    pub(super) error: Option<String>,
    pub(super) interrupts: Vec<Interrupt>,
    pub(super) gotos: Vec<GotoRecord>,
}

/// Tells that an attempt of a task failed, and that another one follows.
pub(crate) async fn retried(task: &TaskContext, error: &NodeError, wait: Duration) {
    if let Some(sink) = &task.scope.events {
        let attempt = task.attempt.load(Ordering::Relaxed);
        let kind = EventKind::Retried { attempt, error: error.to_string(), wait };
        sink.task_event(task, kind).await;
    }
}

/// Tells that a task failed whose handler takes over.
pub(crate) async fn task_failed(task: &TaskContext, failure: &Failure) {
    if let Some(sink) = &task.scope.events {
        if !task.given_answers().is_empty() {
            sink.task_event(task, EMPTY_UPDATE).await;
        }
        let kind = EventKind::TaskFinished {
            writes: Vec::new(),
            error: Some(failure.error.clone()),
            interrupts: Vec::new(),
            gotos: Vec::new(),
            handler: false,
        };
        sink.task_event(task, kind).await;
    }
}

impl Engine {
    pub(super) fn sink(&self, mode: Mode) -> Option<&Sink> {
        self.scope.events.as_ref().filter(|it| it.wants(mode))
    }

    /// Shows a state: the run's own, or the last one with what siblings of a question wrote.
    pub(super) async fn show_values(&self, state: &dyn ErasedState, output: bool) {
        if let Some(sink) = self.sink(Mode::Values) {
            let values = Values::new(state.snapshot(), state.lazy_json(), output);
            sink.send(self.step, EventKind::Values(values)).await;
        }
    }

    /// Shows the checkpoint that the coming step starts from.
    pub(super) async fn show_checkpoint_event(&self, next: impl FnOnce() -> Vec<String>) {
        let Some(sink) = self.sink(Mode::Checkpoints) else { return };
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
        sink.send(self.step - 1, kind).await;
    }

    pub(super) async fn show_start(&self, task: &TaskContext, input: impl FnOnce() -> Value) {
        if let Some(sink) = self.sink(Mode::Tasks) {
            let sent = matches!(task.kind, TaskKind::Push(_));
            sink.task_event(task, EventKind::TaskStarted { input: input(), sent }).await;
        }
    }

    /// Shows what a task wrote.
    pub(super) async fn show_update(
        &self,
        task: &TaskContext,
        writes: &[FieldWrite],
        gotos: &[GotoRecord],
        cached: bool,
        handler: bool,
    ) {
        if let Some(sink) = self.sink(Mode::Updates) {
            let (writes, gotos) = (writes.to_vec(), gotos.to_vec());
            sink.task_event(task, EventKind::Update { writes, gotos, cached, handler }).await;
        }
    }

    pub(super) async fn show_end(&self, task: &TaskContext, end: Shown, handler: bool) {
        if let Some(sink) = self.sink(Mode::Tasks) {
            let Shown { writes, error, interrupts, gotos } = end;
            let kind = EventKind::TaskFinished { writes, error, interrupts, gotos, handler };
            sink.task_event(task, kind).await;
        }
    }

    pub(super) async fn show_interrupts(&self, interrupts: Vec<Interrupt>) {
        if let Some(sink) = self.sink(Mode::Updates) {
            sink.send(self.step, EventKind::Interrupted(interrupts)).await;
        }
    }
}
