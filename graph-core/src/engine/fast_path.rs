//! A fast path for steps with a single task in runs without a checkpointer and without a stream.
//!
//! Most steps of a typical loop qualify. A fast step calls the same functions as [`run_step`](Engine::run_step) but
//! skips the bookkeeping for records, events and concurrency, which saves about two thirds of the instructions.

use std::sync::Arc;

use crate::{
    context::task::{TaskContext, TaskKind},
    engine::{
        commit,
        execute::{
            Task, TaskOutcome, TaskOutput, call_node, error_outcome, resolve_outcome, route,
            run_error,
        },
        outcome::ExitReason,
        running::Engine,
    },
    error::{Halt, RunError},
    graph::{erased::NodeIdx, stops::Stops},
    node::erased::TaskInput,
    state::{field::FieldSet, fold::Fold},
};

impl Engine {
    /// Returns whether the run can use the fast path: it must have no checkpointer, stream, step timeout or static
    /// stop.
    pub(super) fn can_use_fast_path(&self) -> bool {
        self.scope.writer.is_none()
            && self.scope.events.is_none()
            && self.graph.step_timeout.is_none()
            && self.stop_before == Stops::None
            && self.stop_after == Stops::None
    }

    /// Returns the node of the next step's only task, if that task can take the fast path.
    pub(super) fn fast_path_node(&self) -> Option<NodeIdx> {
        let node = self.frontier.only_node()?;
        let entry = self.graph.node(node);
        let careful = self.first_step
            || self.step > self.max_step
            || self.scope.control.is_draining()
            || entry.options.needs_full_path;
        (!careful).then_some(node)
    }

    /// Runs one task, folds its writes and follows its transitions.
    pub(super) async fn run_fast_step(
        &mut self,
        node: NodeIdx,
    ) -> Result<Option<ExitReason>, RunError> {
        tokio::task::consume_budget().await;
        let task = Task { graph: self.graph.clone(), node, cx: self.fast_path_context(node) };
        let input = TaskInput::State(self.state.snapshot());
        let outcome = call_node(&task, task.body(), input).await;
        let Task { graph, cx, .. } = &task;
        let mut done = match outcome.and_then(|it| resolve_outcome(it, graph, node)) {
            Ok(done) => done,
            Err(error) => return self.exit_fast_step(cx, error_outcome(cx, error)),
        };
        let mut fold = Fold::default();
        match &mut done.updates[..] {
            [] => {}
            // A single update writes each field at most once, so there can be no conflict.
            [update] => self.state.fold(update, &mut fold)?,
            _ => fold = self.fold_several(node, &mut done)?,
        }
        if graph.has_routers(node) {
            if let Err(error) = route(&task, &*self.state, &mut done) {
                return match error.into_halt() {
                    Halt::Failed { source, terminal } => Err(run_error(cx, source, terminal)),
                    _ => Err(RunError::InvalidUpdate("a branch cannot interrupt".to_owned())),
                };
            }
        }
        self.finish_fast_step(&fold);
        self.frontier.advance_one(graph, node, &done.targets);
        self.step += 1;
        self.spare_context = Some(task.cx);
        Ok(None)
    }

    fn fast_path_context(&mut self, node: NodeIdx) -> Arc<TaskContext> {
        if let Some(mut spare) = self.spare_context.take() {
            if let Some(cx) = Arc::get_mut(&mut spare) {
                let entry = self.graph.node(node);
                let tracks_heartbeats = entry.options.idle_timeout.is_some();
                cx.reuse_for(entry.label.clone(), self.task_step(), tracks_heartbeats);
                return spare;
            }
        }
        Arc::new(self.task_context(node, TaskKind::Pull))
    }

    #[cold]
    fn fold_several(&mut self, node: NodeIdx, done: &mut TaskOutput) -> Result<Fold, RunError> {
        let options = self.commit_options(true);
        let writing = [commit::TaskWrites { node, updates: &mut done.updates }];
        let mut fold = commit::begin_fold(&*self.state, &self.graph, &writing, options)?;
        for update in &mut done.updates {
            self.state.fold(update, &mut fold)?;
        }
        Ok(fold)
    }

    /// Clears step-scoped fields that the step did not write, and tracks whether an output field was written.
    fn finish_fast_step(&mut self, fold: &Fold) {
        let graph = &self.graph;
        self.has_output = self.has_output || fold.changed().intersects(&graph.output);
        if graph.step_scoped.is_empty() {
            return;
        }
        for field in self.live_step_scoped.iter().filter(|it| !fold.folded().contains(*it)) {
            self.state.clear(field);
        }
        let step_scoped = |it: &usize| graph.step_scoped.contains(*it);
        self.live_step_scoped = fold.folded().iter().filter(step_scoped).collect::<FieldSet>();
    }

    #[cold]
    fn exit_fast_step(
        &self,
        cx: &TaskContext,
        outcome: TaskOutcome,
    ) -> Result<Option<ExitReason>, RunError> {
        match outcome {
            TaskOutcome::Done(_) => Ok(None),
            TaskOutcome::Failed(error) => Err(*error),
            TaskOutcome::Interrupted(interrupts) => Ok(Some(ExitReason::Interrupted(interrupts))),
            TaskOutcome::Stopped(stop) => Ok(Some(ExitReason::Stopped(stop))),
            TaskOutcome::ParentCommand(command) if self.scope.parent.is_some() => {
                Ok(Some(ExitReason::ParentCommand(command)))
            }
            TaskOutcome::ParentCommand(_) => Err(RunError::NoParent { node: cx.node().to_owned() }),
        }
    }
}
