//! A fast path for steps with a single task in runs without a checkpointer and without a stream.

use std::sync::Arc;

use crate::{
    context::task::{TaskContext, TaskKind},
    engine::{
        execute::{Task, call_node, resolve_output, route, run_error, task_outcome},
        plan::PlannedTask,
        running::Engine,
        step_task::{StepEnd, StepTask},
    },
    error::RunError,
    graph::{erased::NodeIdx, stops::Stops},
    node::erased::TaskInput,
};

impl Engine {
    /// Returns whether the run can use the fast path: it must have no checkpointer, stream, step timeout or static
    /// stop.
    pub(super) fn allows_fast_path(&self) -> bool {
        self.scope.writer.is_none()
            && self.scope.events.is_none()
            && self.graph.step_timeout.is_none()
            && self.stop_before == Stops::None
            && self.stop_after == Stops::None
    }

    /// Returns the node of the next step's only task, if that task can take the fast path.
    pub(super) fn fast_path_node(&self) -> Option<NodeIdx> {
        let node = self.frontier.only_node()?;
        let is_plain = self.first_step.is_none()
            && self.step <= self.max_step
            && !self.scope.control.is_draining()
            && self.routes_after_commit(node, true);
        is_plain.then_some(node)
    }

    /// Runs one superstep that has a single task.
    ///
    /// The stages are those of `run_step`, without the bookkeeping for records, events and concurrency, which would
    /// have nothing to do. Most steps of a typical loop qualify, and they need about a third of the instructions.
    pub(super) async fn run_fast_step(&mut self, node: NodeIdx) -> Result<StepEnd, RunError> {
        tokio::task::consume_budget().await;
        let task = Task { graph: self.graph.clone(), node, cx: self.reused_context(node) };
        let input = TaskInput::State(self.state.values.snapshot());
        let returned = call_node(&task, task.body(), input).await;
        let mut output = match returned.and_then(|it| resolve_output(it, &task)) {
            Ok(output) => output,
            Err(error) => {
                let plan = PlannedTask { node, kind: TaskKind::Pull, payload: None };
                let mut ended = StepTask::new(plan, task.cx.clone());
                ended.outcome = Some(task_outcome(&task.cx, Err(error)));
                return self.halt(&mut [ended]).await;
            }
        };
        let committed = self.state.commit(&task.graph, [&mut output], self.commit_options(true))?;
        if task.graph.has_routers(node) {
            route(&task, &*self.state.values, &mut output)
                .map_err(|error| run_error(&task.cx, error))?;
        }
        self.frontier.advance_one(&task.graph, &output);
        self.has_output |= committed.changed.intersects(&task.graph.output);
        self.step += 1;
        self.spare_context = Some(task.cx);
        Ok(StepEnd::Continue(()))
    }

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
