//! Publish: sends the engine's events to the stream. Event data is built only if its stream mode was requested.

use serde_json::Value;

use crate::{
    checkpoint::{id::TaskId, record::GotoRecord},
    context::task::{TaskContext, TaskKind},
    engine::running::Engine,
    interrupt::Interrupt,
    state::{erased::ErasedState, field::FieldWrite},
    stream::{EventKind, EventOrigin, EventSender, StreamMode, Values},
};

/// The tasks that run after a checkpoint.
#[derive(Default)]
pub(super) struct NextTasks {
    pub(super) names: Vec<String>,
    pub(super) ids: Vec<TaskId>,
    /// Namespaces of the subgraphs that the tasks run.
    pub(super) subgraphs: Vec<Option<String>>,
}

impl Engine {
    fn sender(&self, mode: StreamMode) -> Option<&EventSender> {
        self.scope.events.as_ref().filter(|it| it.accepts(mode))
    }

    /// Sends an event with `state`. If a step was interrupted, `state` is a copy of the run's state that includes the
    /// writes of the step's finished tasks. Otherwise it is the run's state itself.
    pub(super) async fn publish_values(&self, state: &dyn ErasedState, output: bool) {
        if let Some(sender) = self.sender(StreamMode::Values) {
            let values = Values::new(state.snapshot(), state.to_json_fn(), output);
            sender.send(EventOrigin::step(self.step), EventKind::Values(values)).await;
        }
    }

    /// Sends an event for the checkpoint that the current step starts from.
    pub(super) async fn publish_checkpoint(&self, next: impl FnOnce() -> NextTasks) {
        let Some(sender) = self.sender(StreamMode::Checkpoints) else { return };
        if self.scope.writer.is_none() {
            return;
        }
        let values = self.state.values.json(|_| true).unwrap_or(Value::Null);
        let NextTasks { names, ids, subgraphs } = next();
        let kind = EventKind::Checkpoint {
            id: self.history.id,
            parent: self.history.parent,
            source: self.history.source,
            values,
            next: names,
            next_tasks: ids,
            next_subgraphs: subgraphs,
        };
        sender.send(EventOrigin::step(self.step - 1), kind).await;
    }

    /// Reports that a task is about to run.
    pub(super) async fn publish_start(&self, task: &TaskContext, input: impl FnOnce() -> Value) {
        if self.sender(StreamMode::Tasks).is_some() {
            let sent = matches!(task.kind, TaskKind::Push(_));
            task.send_start(EventKind::TaskStarted { input: input(), sent }).await;
        }
    }

    /// Sends the writes of a task.
    pub(super) async fn publish_update(
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

    /// Reports that a task finished.
    pub(super) async fn publish_output(
        &self,
        task: &TaskContext,
        writes: &[FieldWrite],
        gotos: &[GotoRecord],
        handler: bool,
    ) {
        self.publish_update(task, writes, gotos, false, handler).await;
        if self.sender(StreamMode::Tasks).is_some() {
            let kind = EventKind::TaskFinished {
                writes: writes.to_vec(),
                error: None,
                interrupts: Vec::new(),
                gotos: gotos.to_vec(),
                handler,
            };
            task.send_event(kind).await;
        }
    }

    /// Reports that a task raised interrupts.
    pub(super) async fn publish_interrupted_task(
        &self,
        task: &TaskContext,
        interrupts: &[Interrupt],
        handler: bool,
    ) {
        self.publish_interrupts(interrupts).await;
        if self.sender(StreamMode::Tasks).is_some() {
            let kind = EventKind::TaskFinished {
                writes: Vec::new(),
                error: None,
                interrupts: interrupts.to_vec(),
                gotos: Vec::new(),
                handler,
            };
            task.send_event(kind).await;
        }
    }

    /// Reports that the run was interrupted, or that it reached a static stop if `interrupts` is empty.
    pub(super) async fn publish_interrupts(&self, interrupts: &[Interrupt]) {
        if let Some(sender) = self.sender(StreamMode::Updates) {
            let kind = EventKind::Interrupted(interrupts.to_vec());
            sender.send(EventOrigin::step(self.step), kind).await;
        }
    }
}
