//! Runs one superstep: plan, execute, commit.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{
    cache::CacheKey,
    checkpoint::{record::GotoRecord, stored::Source, writer::Durability},
    context::task::{NodeFailure, TaskContext, TaskKind, TaskStep},
    engine::{
        commit::{self, CommitResult, TaskWrites},
        execute::{PendingFailure, TaskOutcome, TaskOutput, route, with_timeout},
        load::{corrupt_error, stored_targets, updates_from_writes},
        outcome::ExitReason,
        plan::{PlannedTask, Transition},
        running::Engine,
    },
    error::RunError,
    graph::{erased::NodeIdx, stops::Stops},
    interrupt::StopReason,
    node::erased::TaskInput,
    state::field::{FieldError, FieldWrite},
};

/// The tasks of a step with their outcomes. Most steps have one task.
type Slots = SmallVec<[Slot; 1]>;

/// A task of the current step and its outcome so far.
pub(super) struct Slot {
    pub(super) plan: PlannedTask,
    pub(super) cx: Arc<TaskContext>,
    pub(super) outcome: Option<TaskOutcome>,
    /// A failure from an earlier run that the error handler still has to handle.
    pub(super) failed: Option<Box<PendingFailure>>,
    pub(super) cache_key: Option<Box<CacheKey>>,
}

impl Slot {
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.outcome, Some(TaskOutcome::Failed(_)))
    }

    pub(super) fn output(&self) -> Option<&TaskOutput> {
        match &self.outcome {
            Some(TaskOutcome::Done(done)) => Some(done),
            _ => None,
        }
    }
}

impl Engine {
    /// Runs one superstep. Returns `Some` if the run ends.
    pub(super) async fn run_step(&mut self) -> Result<Option<ExitReason>, RunError> {
        // Lets the tokio scheduler run other tasks, because a loop of ready futures would never yield.
        tokio::task::consume_budget().await;
        if self.step > self.max_step {
            return Err(RunError::StepLimit { limit: self.scope.settings.step_limit });
        }
        let mut slots = self.plan()?;
        self.emit_step_checkpoint(&slots).await;
        if slots.is_empty() {
            return Ok(Some(ExitReason::Done));
        }
        if self.stops_before(&slots) {
            return Ok(Some(self.stop_at(StopReason::Before).await));
        }
        if self.scope.control.is_draining() {
            return Ok(Some(ExitReason::Stopped(StopReason::Drained)));
        }
        self.emit_task_starts(&slots).await;
        match self.graph.step_timeout {
            None => self.execute(&mut slots).await?,
            Some(limit) => match with_timeout(limit, self.execute(&mut slots)).await {
                Some(result) => result?,
                None => return Err(RunError::StepTimeout { step: self.step, limit }),
            },
        }
        if slots.iter().any(|it| it.output().is_none()) {
            return self.resolve_halt(&mut slots).await.map(Some);
        }
        let committed = match self.commit(&mut slots).await {
            Err(RunError::Conflict(conflict)) if self.stores_at_exit() => {
                self.commit_before_conflict(&conflict, &slots)?;
                return Err(RunError::Conflict(conflict));
            }
            result => result?,
        };
        self.advance(&slots);
        self.finish_step(committed).await?;
        if self.stops_after(&slots) {
            return Ok(Some(self.stop_at(StopReason::After).await));
        }
        self.spare_context = slots.pop().map(|it| it.cx);
        Ok(None)
    }

    /// Plans the tasks of the step and restores them from the records of earlier runs.
    fn plan(&mut self) -> Result<Slots, RunError> {
        let graph = self.graph.clone();
        // Without a checkpointer, the payloads are not needed again, so they can be moved.
        let planned = self.frontier.tasks(&graph, self.scope.writer.is_none());
        let mut slots = Slots::with_capacity(planned.len());
        for plan in planned {
            let mut cx = self.next_context(plan.node, plan.kind);
            let (mut outcome, mut failed) = (None, None);
            if !self.records.tasks.is_empty() {
                if let Some(task) = Arc::get_mut(&mut cx) {
                    (outcome, failed) = self.restore_task(plan.node, task)?;
                }
            }
            slots.push(Slot { plan, cx, outcome, failed, cache_key: None });
        }
        Ok(slots)
    }

    pub(super) fn task_context(&self, node: NodeIdx, kind: TaskKind) -> TaskContext {
        let entry = self.graph.node(node);
        let (label, step) = (entry.label.clone(), self.task_step());
        let tracks_heartbeats = entry.options.idle_timeout.is_some();
        TaskContext::new(self.scope.clone(), label, kind, step, tracks_heartbeats)
    }

    pub(super) fn task_step(&self) -> TaskStep {
        TaskStep {
            number: self.step,
            max: self.max_step,
            origin: self.origin,
            checkpoint: self.id,
            resuming: self.resuming,
        }
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

    /// Restores a task from its records. Returns its outcome, or the failure that its error handler still has to
    /// handle.
    fn restore_task(
        &self,
        node: NodeIdx,
        cx: &mut TaskContext,
    ) -> Result<(Option<TaskOutcome>, Option<Box<PendingFailure>>), RunError> {
        let Some(log) = self.records.tasks.get(&cx.id()).cloned() else { return Ok((None, None)) };
        cx.restore(log.resume_values, log.effects);
        if self.replaying {
            return Ok((None, None));
        }
        if let Some(result) = log.done {
            return Ok((Some(TaskOutcome::Done(self.recorded_output(result, false)?)), None));
        }
        let handler = self.graph.node(node).options.handler.is_some();
        let failure = match log.failed {
            Some((error, true)) if handler => NodeFailure { node: cx.node().to_owned(), error },
            _ => return Ok((None, None)),
        };
        let handler = cx.handler(failure.clone()).id();
        let log = self.records.tasks.get(&handler).cloned().unwrap_or_default();
        match log.done {
            Some(result) => {
                Ok((Some(TaskOutcome::Done(self.recorded_output(result, true)?)), None))
            }
            None => {
                let (resume_values, effects) = (log.resume_values, log.effects);
                Ok((None, Some(Box::new(PendingFailure { failure, resume_values, effects }))))
            }
        }
    }

    /// Decodes a recorded result. Reports the checkpoint as corrupt if the result is invalid.
    fn recorded_output(
        &self,
        result: (Vec<FieldWrite>, Vec<GotoRecord>),
        handled: bool,
    ) -> Result<TaskOutput, RunError> {
        self.output_from_record(result, handled)
            .map_err(|error| corrupt_error(&self.checkpoint_key(), &error).into())
    }

    pub(super) fn output_from_record(
        &self,
        (writes, gotos): (Vec<FieldWrite>, Vec<GotoRecord>),
        handled: bool,
    ) -> Result<TaskOutput, FieldError> {
        Ok(TaskOutput {
            updates: updates_from_writes(&*self.state, writes)?,
            targets: stored_targets(&self.graph, gotos),
            routed: true,
            handled,
        })
    }

    async fn emit_step_checkpoint(&self, slots: &[Slot]) {
        if self.scope.events.is_some() {
            let name = |it: &Slot| self.graph.node(it.plan.node).label.to_string();
            self.emit_checkpoint(|| slots.iter().map(name).collect()).await;
        }
    }

    /// Sends a start event for each task, and an update event for each task that is already done.
    async fn emit_task_starts(&self, slots: &[Slot]) {
        if self.scope.events.is_none() {
            return;
        }
        for slot in self.visible(slots) {
            let input = || self.input_json(slot).unwrap_or_default();
            self.emit_task_started(&slot.cx, input).await;
        }
        for slot in self.visible(slots) {
            if let Some(done) = slot.output() {
                let writes = self.writes_of(done).unwrap_or_default();
                let targets = done.targets.iter().map(|it| it.to_record(&self.graph));
                let gotos: Vec<_> = targets.filter_map(Result::ok).collect();
                self.emit_update(&slot.cx, &writes, &gotos, true, done.handled).await;
            }
        }
    }

    fn visible<'a>(&self, slots: &'a [Slot]) -> impl Iterator<Item = &'a Slot> {
        let start = self.graph.start;
        slots.iter().filter(move |it| it.plan.node != start)
    }

    fn input(&self, slot: &Slot) -> TaskInput {
        match &slot.plan.payload {
            Some(payload) => TaskInput::Payload(payload.clone()),
            None => TaskInput::State(self.state.snapshot()),
        }
    }

    pub(super) fn input_json(&self, slot: &Slot) -> Option<serde_json::Value> {
        let body = self.graph.node(slot.plan.node).body.as_ref()?;
        body.0.input_json(&self.input(slot), &slot.cx)
    }

    /// Determines how the run ends if not all tasks are done. A failure takes precedence over interrupts.
    async fn resolve_halt(&mut self, slots: &mut [Slot]) -> Result<ExitReason, RunError> {
        let mut interrupts = Vec::new();
        let (mut stop, mut parent) = (None, None);
        for slot in slots.iter_mut() {
            match &slot.outcome {
                Some(TaskOutcome::Failed(error)) => return Err((**error).clone()),
                Some(TaskOutcome::Interrupted(raised)) => interrupts.extend(raised.iter().cloned()),
                Some(TaskOutcome::Stopped(reason)) => stop = Some(*reason),
                Some(TaskOutcome::ParentCommand(_)) => {
                    if let Some(TaskOutcome::ParentCommand(command)) = slot.outcome.take() {
                        parent = Some((slot.cx.node().to_owned(), command));
                    }
                }
                Some(TaskOutcome::Done(_)) | None => {}
            }
        }
        if let Some((node, command)) = parent {
            return match self.scope.parent {
                Some(_) => Ok(ExitReason::ParentCommand(command)),
                None => Err(RunError::NoParent { node }),
            };
        }
        self.emit_finished_siblings(slots).await?;
        if interrupts.is_empty() {
            return Ok(self.stop_at(stop.unwrap_or(StopReason::Drained)).await);
        }
        Ok(ExitReason::Interrupted(interrupts))
    }

    /// Sends the state of an interrupted step, including the writes of the step's finished tasks.
    async fn emit_finished_siblings(&mut self, slots: &[Slot]) -> Result<(), RunError> {
        if self.scope.parent.is_some() || !slots.iter().any(|it| it.output().is_some()) {
            return Ok(());
        }
        let mut state = self.state.fork();
        let mut live = self.live_step_scoped.clone();
        let mut copies = Vec::new();
        for slot in in_task_order(slots) {
            if let Some(done) = slots[slot].output() {
                let copied = done.updates.iter().map(|it| state.clone_update(it));
                copies.push((slots[slot].plan.node, copied.collect::<Result<Vec<_>, _>>()?));
            }
        }
        let mut writes: Vec<_> =
            copies.iter_mut().map(|(node, updates)| TaskWrites { node: *node, updates }).collect();
        let options = commit::CommitOptions { collect_changes: false, ..self.commit_options(true) };
        let committed = commit::commit(&self.graph, &mut *state, &mut live, &mut writes, options)?;
        let output = committed.changed.intersects(&self.graph.output);
        if !committed.changed.is_empty() {
            self.emit_values(&*state, output).await;
        }
        self.has_output |= output;
        self.exit_state = Some(state.snapshot());
        Ok(())
    }

    /// Folds the writes of all tasks, in task order.
    async fn commit(&mut self, slots: &mut [Slot]) -> Result<CommitResult, RunError> {
        if let [only] = slots {
            if !self.stores_at_exit() {
                return self.commit_one(only).await;
            }
        }
        let order = in_task_order(slots);
        let mut writes: Vec<Option<TaskWrites<'_>>> = slots
            .iter_mut()
            .map(|slot| match &mut slot.outcome {
                Some(TaskOutcome::Done(done)) => {
                    Some(TaskWrites { node: slot.plan.node, updates: &mut done.updates })
                }
                _ => None,
            })
            .collect();
        let mut ordered: Vec<_> = order.filter_map(|it| writes[it].take()).collect();
        self.fold(&mut ordered, true)
    }

    /// Folds the writes of the only task and calls its routers with the committed state.
    async fn commit_one(&mut self, slot: &mut Slot) -> Result<CommitResult, RunError> {
        let options = self.commit_options(true);
        let Some(TaskOutcome::Done(mut done)) = slot.outcome.take() else {
            return Ok(CommitResult::default());
        };
        // The writes are collected before the fold, because the fold consumes the updates.
        let writes = match !done.routed && self.is_observed() {
            true => match self.checked_writes(&done) {
                Ok(writes) => Some(writes),
                Err(error) => return Err(self.record_late_failure(slot, error).await),
            },
            false => None,
        };
        let writing = [TaskWrites { node: slot.plan.node, updates: &mut done.updates }];
        let mut fold = commit::begin_fold(&*self.state, &self.graph, &writing, options)?;
        for update in &mut done.updates {
            self.state.fold(update, &mut fold)?;
        }
        if !done.routed {
            if let Err(error) = route(&self.task(slot), &*self.state, &mut done) {
                return Err(self.record_routing_failure(slot, error.into_halt()).await);
            }
        }
        let outcome = TaskOutcome::Done(done);
        if let Some(writes) = writes {
            self.record_task_end(slot, &outcome, writes, None).await?;
        }
        slot.outcome = Some(outcome);
        let graph = &self.graph;
        Ok(commit::finish_fold(graph, &mut *self.state, &mut self.live_step_scoped, fold, options)?)
    }

    /// Follows the transitions of all tasks, in task order.
    fn advance(&mut self, slots: &[Slot]) {
        let graph = self.graph.clone();
        let planned = || in_task_order(slots).map(|it| &slots[it].plan);
        let transitions = in_task_order(slots).filter_map(|it| {
            let done = slots[it].output()?;
            Some(Transition {
                node: slots[it].plan.node,
                edges: !done.handled,
                targets: &done.targets,
            })
        });
        self.frontier.advance(&graph, planned, transitions);
    }

    /// Finishes a step: sends and stores the new state and drops the step's records.
    async fn finish_step(&mut self, committed: CommitResult) -> Result<(), RunError> {
        let CommitResult { changed, mut affected, mut changes } = committed;
        let output = changed.intersects(&self.graph.output);
        self.has_output |= output;
        if self.scope.events.is_some() && !changed.is_empty() {
            self.emit_values(&*self.state, output).await;
        }
        if self.first_step {
            self.end_first_step();
        }
        if self.scope.writer.is_none() {
            self.step += 1;
            return Ok(());
        }
        self.records.clear();
        if self.stores_at_exit() {
            self.buffered_records.clear();
        }
        if !self.command_changes.is_empty() {
            let step = std::mem::replace(&mut changes, std::mem::take(&mut self.command_changes));
            changes.extend(step);
        }
        affected.union_with(&std::mem::take(&mut self.unsaved));
        self.put_checkpoint(Source::Loop, changes, &affected).await
    }

    /// Clears the data that applies only to the first step of a run: unused resume values, and the flags for replaying
    /// and for resuming subgraphs.
    fn end_first_step(&mut self) {
        if self.scope.parent.is_none() {
            self.scope.resume_values.end_first_step();
        }
        self.first_step = false;
        self.replaying = false;
        self.resuming = false;
    }

    fn stops_before(&self, slots: &[Slot]) -> bool {
        self.stops_at(&self.stop_before, slots)
    }

    fn stops_after(&self, slots: &[Slot]) -> bool {
        self.stops_at(&self.stop_after, slots)
    }

    fn stops_at(&self, stops: &Stops, slots: &[Slot]) -> bool {
        !matches!(stops, Stops::None)
            && self.frontier.version > self.frontier.resumed_version
            && self.visible(slots).any(|it| stops.contains(&self.graph.node(it.plan.node).label))
    }

    async fn stop_at(&self, stop: StopReason) -> ExitReason {
        if self.scope.parent.is_none() && stop != StopReason::Drained {
            self.emit_interrupts(Vec::new()).await;
        }
        ExitReason::Stopped(stop)
    }

    pub(super) fn stores_at_exit(&self) -> bool {
        self.scope.writer.as_ref().is_some_and(|it| it.durability == Durability::Exit)
    }

    pub(super) fn stores_each_step(&self) -> bool {
        self.scope.writer.as_ref().is_some_and(|it| it.durability != Durability::Exit)
    }
}

/// Returns the indices of the slots in task order: first nodes by name, then payloads in the order sent. The slots
/// themselves are stored with the payloads first.
pub(super) fn in_task_order(slots: &[Slot]) -> impl Iterator<Item = usize> + use<> {
    let pushes = slots.partition_point(|it| matches!(it.plan.kind, TaskKind::Push(_)));
    (pushes..slots.len()).chain(0..pushes)
}
