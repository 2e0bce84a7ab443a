//! A fast path for steps with a single task in runs without a checkpointer and without a stream.

use std::sync::Arc;

use crate::{
    context::task::{TaskContext, TaskKind},
    engine::{
        commit::CommitOptions,
        execute::{Task, call_node, resolve_output, route, run_error, task_outcome},
        plan::PlannedTask,
        running::Engine,
        step_task::{StepEnd, StepTask},
    },
    error::{NodeError, RunError},
    graph::{erased::NodeIdx, stops::Stops},
    node::erased::TaskInput,
};

impl Engine {
    /// Returns whether the run can use the fast path: it must have no checkpointer, stream, step timeout, static
    /// stop or runner of tasks.
    pub(super) fn allows_fast_path(&self) -> bool {
        self.scope.writer.is_none()
            && self.scope.events.is_none()
            && self.graph.step_timeout.is_none()
            && self.stop_before == Stops::None
            && self.stop_after == Stops::None
            && self.task_runner.is_none()
    }

    /// Returns the node of the next step's only task, if that task can take the fast path.
    #[inline]
    pub(super) fn fast_path_node(&self) -> Option<NodeIdx> {
        let node = self.frontier.only_node()?;
        let is_plain = self.first_step.is_none()
            && self.step <= self.max_step
            && !self.scope.control.is_draining()
            && self.ahead.as_ref().is_none_or(|it| it.is_empty())
            && self.routes_after_commit(node, true);
        is_plain.then_some(node)
    }

    /// Runs one superstep that has a single task.
    ///
    /// The stages are those of `run_step`, without the bookkeeping for records, events and concurrency, which would
    /// have nothing to do. Most steps of a typical loop qualify. If the node itself does almost nothing, a fast step
    /// needs about 40 % of the instructions of `run_step`.
    pub(super) async fn run_fast_step(&mut self, node: NodeIdx) -> Result<StepEnd, RunError> {
        tokio::task::consume_budget().await;
        let cx = self.reused_context(node);
        let task = Task { graph: &self.graph, node, cx: &cx };
        let input = TaskInput::State(self.state.values.snapshot());
        let returned = call_node(task, task.body(), input).await;
        let mut output = match resolve_output(returned, task) {
            Ok(output) => output,
            Err(error) => {
                let plan = PlannedTask { node, kind: TaskKind::Pull, payload: None };
                let mut ended = StepTask::new(plan, cx.clone());
                ended.outcome = Some(task_outcome(&cx, Err(error)));
                return self.halt(&mut [ended]).await;
            }
        };
        if let Err(error) = self.undeclared_use(&output) {
            return Err(run_error(&cx, NodeError::terminal(error)));
        }
        // Nothing has to be cleared or stored: the fast path is taken only if no step-scoped field has a value and the
        // run has no checkpointer.
        let options =
            CommitOptions { step: self.step, clear_step_scoped: false, collect_changes: false };
        let fold = self.state.fold(&self.graph, [&mut output], options)?;
        if self.graph.has_routers(node) {
            route(task, &*self.state.values, &mut output).map_err(|it| run_error(&cx, it))?;
        }
        self.frontier.advance_one(&self.graph, &output);
        self.has_output = self.has_output || fold.changed().intersects(&self.graph.output);
        self.step += 1;
        self.spare_context = Some(cx);
        Ok(StepEnd::Continue(()))
    }

    #[inline]
    fn reused_context(&mut self, node: NodeIdx) -> Arc<TaskContext> {
        if let Some(mut spare) = self.spare_context.take() {
            if let Some(cx) = Arc::get_mut(&mut spare) {
                let entry = self.graph.node(node);
                let tracks_heartbeats = entry.options.idle_timeout.is_some();
                cx.reuse_for(entry.label.clone(), self.step, tracks_heartbeats);
                return spare;
            }
        }
        Arc::new(self.task_context(node, TaskKind::Pull))
    }
}
