//! One superstep: plan → execute → commit → route → publish → persist.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{
    checkpoint::{error::CheckpointError, record::GotoRecord, stored::Source},
    context::task::{NodeFailure, TaskContext, TaskKind},
    engine::{
        ahead::Ahead,
        commit::{CommitOptions, Committed},
        execute::{
            Execution, Job, PendingFailure, Task, route, route_in_task, run_error, task_outcome,
        },
        inspect::subgraph_namespace,
        outcome::{TaskOutcome, TaskOutput},
        plan::StartInput,
        publish::NextTasks,
        running::Engine,
        step_task::{StepEnd, StepTask, StepTasks, in_task_order, in_task_order_mut},
        target::goto_records,
        task_pool::TaskPool,
    },
    error::RunError,
    graph::{erased::NodeIdx, stops::Stops},
    interrupt::StopReason,
    node::erased::TaskInput,
    remote::task_call::{RemoteTaskRunner, TaskPlacement},
    state::{
        change::Change,
        erased::{AnyState, ErasedState},
        field::{FieldSet, FieldWrite},
    },
};

impl Engine {
    /// Runs one superstep.
    pub(super) async fn run_step(&mut self) -> Result<StepEnd, RunError> {
        // Lets the tokio scheduler run other tasks, because a loop of ready futures would never yield.
        tokio::task::consume_budget().await;
        if self.step > self.max_step {
            return Err(RunError::StepLimit { limit: self.scope.settings.step_limit });
        }
        let mut tasks = self.plan()?;
        self.publish_checkpoint(|| self.next_tasks(&tasks)).await;
        if tasks.is_empty() {
            return Ok(StepEnd::Break(None));
        }
        if self.stops_at(&self.stop_before, &tasks) {
            return Ok(self.stop(StopReason::Before).await);
        }
        if self.scope.control.is_draining() {
            return Ok(self.stop(StopReason::Drained).await);
        }
        self.publish_starts(&tasks).await;
        if let Err(error) = self.execute_in_time(&mut tasks).await {
            self.record_finished(&mut tasks);
            return Err(error);
        }
        if tasks.iter().any(|it| it.output().is_none()) {
            self.record_finished(&mut tasks);
            return self.halt(&mut tasks).await;
        }
        let committed = self.commit(&mut tasks)?;
        self.route(&mut tasks).await?;
        // The state is published before it is stored. After a crash in between, the step runs again and publishes it
        // again; in the other order, the event would be lost.
        self.publish(&committed.changed).await;
        self.end_first_step();
        self.drop_committed_records(&tasks);
        self.persist(committed.changes, committed.affected).await?;
        if self.stops_at(&self.stop_after, &tasks) {
            // The event of the checkpoint contains the tasks of the next step.
            let next = self.plan()?;
            self.publish_checkpoint(|| self.next_tasks(&next)).await;
            return Ok(self.stop(StopReason::After).await);
        }
        self.spare_context = tasks.pop().map(|it| it.cx);
        Ok(StepEnd::Continue(()))
    }

    /// Plans the tasks of the step and restores them from the records of earlier runs.
    fn plan(&mut self) -> Result<StepTasks, RunError> {
        // Without a checkpointer, the payloads are not needed again, so they can be moved.
        let planned = self.frontier.tasks(&self.graph, self.scope.writer.is_none());
        let mut tasks = StepTasks::with_capacity(planned.len());
        for plan in planned {
            let slot = (self.step, plan.order());
            if let Some(cx) = self.ahead.as_mut().and_then(|it| it.context_or_remove(slot)) {
                tasks.push(StepTask::new(plan, cx));
                continue;
            }
            let cx = self.next_context(plan.node, plan.kind);
            let mut task = StepTask::new(plan, cx);
            if !self.records.tasks.is_empty() {
                self.restore_task(&mut task)?;
            }
            tasks.push(task);
        }
        self.drop_stale_records(&tasks);
        Ok(tasks)
    }

    /// Creates a context for a task. Reuses the allocation of an earlier context if nothing else refers to that
    /// context.
    fn next_context(&mut self, node: NodeIdx, kind: TaskKind) -> Arc<TaskContext> {
        let fresh = self.task_context(node, kind);
        if let Some(mut spare) = self.spare_context.take() {
            if let Some(old) = Arc::get_mut(&mut spare) {
                *old = fresh;
                return spare;
            }
        }
        Arc::new(fresh)
    }

    /// Restores the outcome of a task from its records, or the failure that its error handler still has to handle.
    fn restore_task(&self, task: &mut StepTask) -> Result<(), RunError> {
        let node = task.plan.node;
        let Some(cx) = Arc::get_mut(&mut task.cx) else { return Ok(()) };
        let Some(log) = self.records.tasks.get(&cx.id()).cloned() else { return Ok(()) };
        cx.restore(log.resume_values, log.effects);
        if self.first_step.is_some_and(|it| it.replaying) {
            return Ok(());
        }
        if let Some(result) = log.done {
            task.outcome = Some(TaskOutcome::Done(self.recorded_output(node, result, false)?));
            return Ok(());
        }
        let has_handler = self.graph.node(node).options.handler.is_some();
        let failure = match log.failed {
            Some((error, true)) if has_handler => NodeFailure { node: cx.node().to_owned(), error },
            _ => return Ok(()),
        };
        let handler = cx.handler(failure.clone()).id();
        let log = self.records.tasks.get(&handler).cloned().unwrap_or_default();
        match log.done {
            Some(result) => {
                task.outcome = Some(TaskOutcome::Done(self.recorded_output(node, result, true)?));
            }
            None => {
                let (resume_values, effects) = (log.resume_values, log.effects);
                task.failed = Some(Box::new(PendingFailure { failure, resume_values, effects }));
            }
        }
        Ok(())
    }

    /// Decodes a recorded result. Reports the checkpoint as corrupt if the result is invalid.
    pub(super) fn recorded_output(
        &self,
        node: NodeIdx,
        result: (Vec<FieldWrite>, Vec<GotoRecord>),
        handled: bool,
    ) -> Result<TaskOutput, RunError> {
        let output = self.output_from_record(node, result);
        let output = output.map_err(|it| CheckpointError::corrupt(&self.checkpoint_key(), &it))?;
        Ok(TaskOutput { handled, ..output })
    }

    /// Sends a start event for each task, and an update event for each task that is already done.
    async fn publish_starts(&self, tasks: &[StepTask]) {
        if self.scope.events.is_none() {
            return;
        }
        for task in self.visible(tasks) {
            self.publish_start(&task.cx, || self.input_json(task).unwrap_or_default()).await;
        }
        for task in self.visible(tasks) {
            if let Some(output) = task.output() {
                let writes = self.writes_of(output).unwrap_or_default();
                let gotos = goto_records(&self.graph, &output.targets).unwrap_or_default();
                self.publish_update(&task.cx, &writes, &gotos, true, output.handled).await;
            }
        }
    }

    /// Runs all tasks that have no outcome yet, within the graph's step timeout. The timeout does not apply to tasks of
    /// later steps.
    async fn execute_in_time(&mut self, tasks: &mut [StepTask]) -> Result<(), RunError> {
        let has_branches = |it: &Ahead| tasks.len() > 1 || !it.is_empty();
        let eagerly =
            self.ahead.as_deref().is_some_and(has_branches) && self.frontier.input.is_none();
        match self.graph.step_timeout {
            None => self.execute(tasks, eagerly).await?,
            Some(limit) => match tokio::time::timeout(limit, self.execute(tasks, eagerly)).await {
                Ok(result) => result?,
                Err(_) => return Err(RunError::StepTimeout { step: self.step, limit }),
            },
        }
        match eagerly {
            true => Box::pin(self.run_branches_to_end(tasks)).await,
            false => Ok(()),
        }
    }

    async fn execute(&mut self, tasks: &mut [StepTask], eagerly: bool) -> Result<(), RunError> {
        if eagerly {
            return Box::pin(self.execute_eagerly(tasks)).await;
        }
        self.look_up_cache(tasks).await?;
        let tasks_in_step = tasks.len();
        let alone = tasks_in_step == 1;
        let open = tasks.iter().filter(|it| it.outcome.is_none()).count();
        let limit = self.scope.settings.max_concurrency.unwrap_or(usize::MAX).max(1);
        let mut pool = if alone { TaskPool::inline() } else { TaskPool::spawning(open, limit) };
        let mut next = 0;
        let mut failed = false;
        loop {
            // After a failure no new task is started, but running tasks may finish, so that their work is not lost.
            while !failed && pool.has_capacity() && next < tasks.len() {
                let task = &mut tasks[next];
                if task.outcome.is_none() && task.plan.node == self.graph.start {
                    let outcome = self.take_input(task, alone).await;
                    self.end_task(task, outcome.into()).await?;
                    failed |= task.has_failed();
                } else if task.outcome.is_none() {
                    let runner = self.runner_for(task.plan.node, tasks_in_step);
                    pool.start(next, Job { runner, ..self.job(task, alone) });
                }
                next += 1;
            }
            if pool.must_wait() {
                self.flush_records().await?;
            }
            let Some((index, Execution { outcome, handled })) = pool.next().await? else {
                return Ok(());
            };
            let task = &mut tasks[index];
            // Like `end_task`, but without the cost of a future for each task that is not recorded.
            if self.set_outcome(task, outcome) {
                self.record_end(task, handled.as_deref()).await?;
            }
            failed |= task.has_failed();
        }
    }

    pub(super) fn job(&self, task: &mut StepTask, alone: bool) -> Job {
        let input = match task.plan.payload.take() {
            Some(payload) => TaskInput::Payload(payload),
            None => TaskInput::State(self.visible_snapshot(task.plan.node)),
        };
        let needs_view = self.graph.has_routers(task.plan.node)
            && !self.routes_after_commit(task.plan.node, alone);
        let view = || self.visible_state(task.plan.node, &*self.state.values);
        Job {
            graph: self.graph.clone(),
            node: task.plan.node,
            cx: task.cx.clone(),
            input,
            view: needs_view.then(view),
            failed: task.failed.take(),
            runner: None,
        }
    }

    /// Returns the runner of a task that runs in another process.
    fn runner_for(&self, node: NodeIdx, tasks_in_step: usize) -> Option<Arc<dyn RemoteTaskRunner>> {
        let runner = self.task_runner.as_ref()?;
        let entry = self.graph.node(node);
        let placement = TaskPlacement {
            node: entry.label.as_str(),
            pool: entry.options.pool.as_deref(),
            tasks_in_step,
        };
        let is_movable = self.graph.is_movable(node) && self.scope.settings.effects.is_none();
        (is_movable && runner.accepts(placement)).then(|| runner.clone())
    }

    /// Returns the state as a node sees it.
    fn visible_snapshot(&self, node: NodeIdx) -> AnyState {
        match self.graph.node(node).limits_node_to_view {
            true => self.visible_state(node, &*self.state.values).snapshot(),
            false => self.state.values.snapshot(),
        }
    }

    /// Returns a state as the routers of a node see it.
    pub(super) fn visible_state(
        &self,
        node: NodeIdx,
        state: &dyn ErasedState,
    ) -> Box<dyn ErasedState> {
        match &self.graph.node(node).view {
            Some(view) => view.apply(state),
            None => state.fork(),
        }
    }

    /// Returns whether the routers of a node are called after the commit, with the committed state, and not as part of
    /// the task, with a copy of the state.
    ///
    /// This saves the copy, but it is possible only if the committed state equals the state that the routers must see,
    /// and if a failing router does not require the commit to be undone. The task must therefore be the only one in
    /// its step and must not be retried, handled or cached. The commit must not clear step-scoped fields, and the
    /// previous state must not be needed for a checkpoint. Nodes with a restricted view of the state are excluded,
    /// because their routers also see the node's own writes, which the commit consumes.
    pub(super) fn routes_after_commit(&self, node: NodeIdx, alone: bool) -> bool {
        alone
            && !self.graph.node(node).options.routes_in_task
            && self.state.live.is_empty()
            && !self.stores_at_exit()
    }

    /// Executes START, which returns the run's input as its update.
    async fn take_input(&mut self, task: &StepTask, alone: bool) -> TaskOutcome {
        let node = task.plan.node;
        let input = match &self.frontier.input {
            // With exit durability, the input must still be available for the checkpoint if START fails.
            Some(input) if self.stores_at_exit() => {
                match self.state.values.clone_update(&input.update) {
                    Ok(update) => Some(StartInput { update, gotos: input.gotos.clone() }),
                    Err(error) => return TaskOutcome::Failed(Box::new(error.into())),
                }
            }
            _ => self.frontier.input.take(),
        };
        let mut output = match input {
            Some(StartInput { update, gotos }) => {
                TaskOutput { targets: gotos, ..TaskOutput::new(node, SmallVec::from_buf([update])) }
            }
            None => return TaskOutcome::Done(TaskOutput::new(node, SmallVec::new())),
        };
        if !self.routes_after_commit(node, alone) {
            let cx = &task.cx;
            let task = Task { graph: &self.graph, node, cx };
            let routed = route_in_task(task, &*self.state.values, &mut output).await;
            return task_outcome(cx, routed.map(|()| output));
        }
        TaskOutcome::Done(output)
    }

    pub(super) fn input_json(&self, task: &StepTask) -> Option<serde_json::Value> {
        let body = self.graph.node(task.plan.node).body.as_ref()?;
        let input = match &task.plan.payload {
            Some(payload) => TaskInput::Payload(payload.clone()),
            None => TaskInput::State(self.visible_snapshot(task.plan.node)),
        };
        body.0.input_json(&input, &task.cx)
    }

    /// Folds the writes of all tasks, in task order.
    fn commit(&mut self, tasks: &mut [StepTask]) -> Result<Committed, RunError> {
        let options = self.commit_options(true);
        let outputs = in_task_order_mut(tasks).filter_map(StepTask::output_mut);
        match self.state.commit(&self.graph, outputs, options) {
            Err(RunError::Conflict(conflict)) if self.stores_at_exit() => {
                self.record_finished(tasks);
                self.commit_before_conflict(&conflict, tasks)?;
                Err(RunError::Conflict(conflict))
            }
            result => result,
        }
    }

    pub(super) fn commit_options(&self, clear_step_scoped: bool) -> CommitOptions {
        let collect_changes = self.stores_each_step();
        CommitOptions { step: self.step, clear_step_scoped, collect_changes }
    }

    /// Calls the routers that have to see the committed state, and moves the frontier to the next step.
    async fn route(&mut self, tasks: &mut [StepTask]) -> Result<(), RunError> {
        for task in tasks.iter_mut() {
            let Some(TaskOutcome::Done(output)) = &mut task.outcome else { continue };
            if output.routed {
                continue;
            }
            let routed_task = Task { graph: &self.graph, node: task.plan.node, cx: &task.cx };
            let routed = route(routed_task, &*self.state.values, output);
            let routed = routed.map_err(|it| run_error(&task.cx, it));
            if let Err(error) = &routed {
                task.outcome = Some(TaskOutcome::Failed(Box::new(error.clone())));
            }
            if self.records_end(task) {
                self.record_end(task, None).await?;
            }
            routed?;
        }
        let planned = in_task_order(tasks).map(|it| &it.plan);
        let outputs = in_task_order(tasks).filter_map(StepTask::output);
        self.frontier.advance(&self.graph, planned, outputs);
        Ok(())
    }

    /// Sends the new state if the step changed it.
    async fn publish(&mut self, changed: &FieldSet) {
        let wrote_output = changed.intersects(&self.graph.output);
        self.has_output |= wrote_output;
        if !changed.is_empty() {
            self.publish_values(&*self.state.values, wrote_output).await;
        }
    }

    /// Drops the data that applies only to the first step of a run, including unused resume values.
    fn end_first_step(&mut self) {
        if self.first_step.take().is_some() && self.scope.parent.is_none() {
            self.scope.resume_values.drop_single();
        }
    }

    /// Stores a checkpoint of the new state and increments the step number.
    async fn persist(
        &mut self,
        changes: Vec<(String, Change)>,
        mut affected: FieldSet,
    ) -> Result<(), RunError> {
        if self.scope.writer.is_none() {
            self.step += 1;
            return Ok(());
        }
        if self.ahead.is_none() {
            self.records.clear();
        }
        if self.stores_at_exit() {
            self.history.buffered_records.clear();
        }
        let mut all = std::mem::take(&mut self.history.command_changes);
        if all.is_empty() {
            all = changes;
        } else {
            all.extend(changes);
        }
        affected.union_with(&std::mem::take(&mut self.history.unsaved_fields));
        self.put_checkpoint(Source::Loop, all, &affected).await
    }

    /// Returns whether a static stop applies to one of the tasks.
    fn stops_at(&self, stops: &Stops, tasks: &[StepTask]) -> bool {
        !matches!(stops, Stops::None)
            && self.frontier.version > self.frontier.resumed_version
            && self.visible(tasks).any(|it| stops.contains(&self.graph.node(it.plan.node).label))
    }

    fn visible<'a>(&self, tasks: &'a [StepTask]) -> impl Iterator<Item = &'a StepTask> {
        let start = self.graph.start;
        tasks.iter().filter(move |it| it.plan.node != start)
    }

    /// Converts the tasks to the form that checkpoint events contain.
    fn next_tasks(&self, tasks: &[StepTask]) -> NextTasks {
        let mut next = NextTasks::default();
        for task in tasks {
            let (node, id) = (task.plan.node, task.cx.id());
            next.names.push(self.graph.node(node).label.to_string());
            next.ids.push(id);
            let outer = &self.scope.namespace;
            next.subgraphs.push(subgraph_namespace(&self.graph, outer, node, id));
        }
        next
    }
}
