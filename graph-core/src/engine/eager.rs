//! Execute, for eager graphs: while the current step waits for its tasks, tasks of later steps run ahead.
//!
//! Steps are still committed in order, so everything that a run stores and reports is the same as without running ahead.
//! The section "Eager graphs" of `ARCHITECTURE.md` defines the rules.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    checkpoint::{id::TaskId, record::TaskRecord},
    context::{
        ahead::EarlyTask,
        task::{TaskContext, TaskKind},
    },
    engine::{
        ahead::{Ahead, AheadTask},
        execute::{Execution, Job},
        outcome::{TaskOutcome, TaskOutput},
        plan::PlannedTask,
        running::Engine,
        step_task::{StepTask, in_task_order, position},
        target::{Target, goto_records},
    },
    error::{Halt, RunError, UndeclaredError},
    graph::{erased::NodeIdx, fields::DeclaredFields, stops::Stops},
    node::erased::TaskInput,
    state::{
        erased::ErasedState,
        field::{FieldError, FieldSet},
        fold::Fold,
    },
};

/// Maximum number of steps that a task can start ahead of the current step.
const MAX_STEPS_AHEAD: i64 = 32;

/// A task that can start before its step.
struct EarlyStart {
    step: i64,
    plan: PlannedTask,
    /// The state as the node sees it. `None` for a task with a payload whose node has no branches.
    state: Option<Box<dyn ErasedState>>,
}

/// A task that is certain to be part of its step, with its output if it is done.
struct KnownTask<'a> {
    plan: PlannedTask,
    output: Option<&'a TaskOutput>,
}

/// The work that is not done: tasks that are certain or possible, with the numbers of their steps, and waiting deferred
/// nodes with the numbers of the first steps that could run them.
#[derive(Default)]
struct OpenTasks(Vec<(i64, NodeIdx)>);

impl OpenTasks {
    /// Returns whether an open task, or a node that it leads to, may write one of the fields before the step.
    fn may_write(&self, declared: &DeclaredFields, fields: &FieldSet, step: i64) -> bool {
        self.before(step).any(|(node, hops)| declared.may_write(node, hops, fields))
    }

    /// Returns whether the node may run before the step.
    fn may_run(&self, declared: &DeclaredFields, node: NodeIdx, step: i64) -> bool {
        self.before(step).any(|(open, hops)| declared.reaches(open, node, hops))
    }

    /// Returns the open tasks of earlier steps, each with the number of edges that it can be followed by before the
    /// step.
    fn before(&self, step: i64) -> impl Iterator<Item = (NodeIdx, usize)> {
        let earlier = self.0.iter().filter(move |(open, _)| *open < step);
        earlier.map(move |(open, node)| (*node, usize::try_from(step - 1 - open).unwrap_or(0)))
    }
}

impl Engine {
    /// Runs all tasks of the current step that have no outcome yet, and starts tasks of later steps.
    pub(super) async fn execute_eagerly(&mut self, tasks: &mut [StepTask]) -> Result<(), RunError> {
        self.look_up_cache(tasks).await?;
        let mut failed = false;
        let (mut next, mut taken) = (0, 0);
        loop {
            while !failed && next < tasks.len() && self.ahead().has_capacity() {
                let slot = (self.step, tasks[next].plan.order());
                if tasks[next].outcome.is_none() && self.ahead().get(slot).is_none() {
                    let job = self.job(&mut tasks[next], false)?;
                    self.ahead().start(slot, job);
                }
                next += 1;
            }
            if taken == 0 {
                for task in tasks.iter().filter(|it| it.outcome.is_none()) {
                    task.cx.reach_step().await;
                }
            }
            // A task that ran ahead and failed must not keep the tasks before it from starting: the first failure in
            // the order of the tasks is reported.
            failed |= self.take_early_results(&mut tasks[taken..next]).await?;
            taken = next;
            let started_all = failed || next == tasks.len();
            let step = self.step;
            if started_all && !self.ahead().is_running(step) {
                return Ok(());
            }
            if !self.ahead().has_ended() {
                if !failed {
                    self.run_ahead(tasks)?;
                }
                self.flush_records().await?;
            }
            let Some((slot, execution)) = self.ahead().next().await? else { return Ok(()) };
            let index = (slot.0 == step).then(|| position(tasks, slot.1));
            match index.filter(|it| *it < next) {
                Some(index) => {
                    self.ahead().remove(slot);
                    self.end_task(&mut tasks[index], execution).await?;
                    failed |= tasks[index].has_failed();
                }
                None => self.end_early_task(slot, execution).await?,
            }
        }
    }

    /// Runs tasks of later steps until no more can start, if the run ends after the current step. Their results are
    /// recorded for the next run.
    pub(super) async fn run_branches_to_end(&mut self, tasks: &[StepTask]) -> Result<(), RunError> {
        if !self.waits_for_early_tasks(tasks) {
            return Ok(());
        }
        let failed = tasks.iter().any(StepTask::has_failed);
        loop {
            if !self.ahead().has_ended() {
                if !failed {
                    self.run_ahead(tasks)?;
                }
                self.flush_records().await?;
            }
            match self.ahead().next_unless_waiting().await? {
                Some((slot, execution)) => self.end_early_task(slot, execution).await?,
                None => return Ok(()),
            }
        }
    }

    /// Ends those of the tasks that ran ahead and have ended. Returns whether one of them failed.
    async fn take_early_results(&mut self, tasks: &mut [StepTask]) -> Result<bool, RunError> {
        let mut failed = false;
        for task in tasks.iter_mut().filter(|it| it.outcome.is_none()) {
            let slot = (self.step, task.plan.order());
            if let Some(execution) = self.ahead().take_ended(slot) {
                self.end_task(task, execution).await?;
                failed |= task.has_failed();
            }
        }
        Ok(failed)
    }

    /// Returns whether a step that has ended waits for tasks of later steps. It does if the run ends after it and their
    /// results can be recorded.
    fn waits_for_early_tasks(&self, tasks: &[StepTask]) -> bool {
        let ends_graph =
            |it: &StepTask| matches!(it.outcome, Some(TaskOutcome::Halted(Halt::ParentCommand(_))));
        let is_incomplete = tasks.iter().any(|it| it.output().is_none());
        is_incomplete && self.scope.writer.is_some() && !tasks.iter().any(ends_graph)
    }

    /// Waits for the running tasks at the end of a run, and sends the events that were held back.
    pub(super) async fn finish_early_tasks(&mut self, wait: bool) -> Result<(), RunError> {
        if self.ahead.as_ref().is_none_or(|it| it.is_empty()) {
            return Ok(());
        }
        if wait && self.scope.writer.is_some() {
            while let Some((slot, execution)) = self.ahead().next_unless_waiting().await? {
                self.end_early_task(slot, execution).await?;
            }
        }
        for task in self.ahead().iter().map(|it| it.cx.clone()).collect::<Vec<_>>() {
            task.release_events().await;
        }
        Ok(())
    }

    /// Stores the outcome of a task of a later step, and records its result.
    async fn end_early_task(
        &mut self,
        slot: (i64, (bool, u32)),
        mut execution: Execution,
    ) -> Result<(), RunError> {
        let Some(cx) = self.ahead().get(slot).map(|it| it.cx.clone()) else { return Ok(()) };
        self.check_declared(&cx, &mut execution.outcome);
        let done = match &execution.outcome {
            TaskOutcome::Done(output) if self.scope.writer.is_some() => {
                // Invalid results are reported when their step is the current one.
                let writes = self.checked_writes(output);
                writes.and_then(|it| Ok((it, goto_records(&self.graph, &output.targets)?))).ok()
            }
            _ => None,
        };
        self.ahead().set_ended(slot, execution);
        let Some((writes, gotos)) = done else { return Ok(()) };
        let record = cx.record(self.done_event(writes, gotos));
        self.records.add(record.clone());
        self.record(vec![record]).await
    }

    /// Replaces the outcome of a task by a failure if the task wrote a field or led to a node that its node does not
    /// declare.
    pub(super) fn check_declared(&self, cx: &TaskContext, outcome: &mut TaskOutcome) {
        if let TaskOutcome::Done(output) = outcome {
            if let Err(error) = self.undeclared_use(output) {
                let (node, step) = (cx.node().to_owned(), cx.step.number);
                let error = RunError::Node { node, step, error: Arc::new(error), terminal: true };
                *outcome = TaskOutcome::Failed(Box::new(error));
            }
        }
    }

    pub(super) fn undeclared_use(&self, output: &TaskOutput) -> Result<(), UndeclaredError> {
        let Some(declared) = &self.graph.declared_fields else { return Ok(()) };
        // The targets of START are those of the input, which can name any node.
        if output.node == self.graph.start {
            return Ok(());
        }
        for update in &output.updates {
            // An update of another type is reported by the commit.
            let Ok(write_set) = self.state.values.write_set(update) else { continue };
            if let Some(field) = declared.undeclared_write(output.node, &write_set.written) {
                let field = self.state.values.fields()[field].name.clone().into_owned();
                return Err(UndeclaredError::Write { field });
            }
        }
        let node_of = |it: &Target| match it {
            Target::Node(node) | Target::Send(node, _) => *node,
        };
        let mut targets = output.targets.iter().map(node_of);
        match targets.find(|it| !declared.declares_target(output.node, *it)) {
            Some(to) => Err(UndeclaredError::Target { to: self.graph.node(to).label.to_string() }),
            None => Ok(()),
        }
    }

    /// Starts all tasks of later steps that can start.
    fn run_ahead(&mut self, tasks: &[StepTask]) -> Result<(), RunError> {
        let stops = self.stop_before != Stops::None || self.stop_after != Stops::None;
        // Without a checkpointer, the results are lost if the run ends after the current step.
        let halted = |it: &StepTask| it.outcome.is_some() && it.output().is_none();
        let loses_results = self.scope.writer.is_none() && tasks.iter().any(halted);
        if stops || loses_results || self.scope.control.is_draining() {
            return Ok(());
        }
        // A recorded result can make further tasks startable.
        while self.start_early_tasks(tasks)? {}
        Ok(())
    }

    /// Starts tasks of later steps. Returns whether an earlier run recorded the result of one of them.
    fn start_early_tasks(&mut self, tasks: &[StepTask]) -> Result<bool, RunError> {
        let graph = self.graph.clone();
        let Some(declared) = &graph.declared_fields else { return Ok(false) };
        let mut found_result = false;
        for EarlyStart { step, plan, state } in self.early_starts(declared, tasks) {
            let mut cx = self.task_context(plan.node, plan.kind);
            cx.step.number = step;
            cx.step.resuming = false;
            let slot = (step, plan.order());
            let log = self.records.tasks.get(&cx.id()).cloned();
            if let Some(result) = log.as_ref().and_then(|it| it.done.clone()) {
                let output = self.recorded_output(plan.node, result, false)?;
                self.ahead().add_recorded(slot, Arc::new(cx), output);
                found_result = true;
                continue;
            }
            if !self.ahead().has_capacity() {
                continue;
            }
            if let Some(log) = log.filter(|it| !it.effects.is_empty()) {
                cx.restore(Vec::new(), log.effects);
            }
            let waiting = self.ahead().waiting.clone();
            cx.early = Some(Arc::new(EarlyTask::new(waiting)));
            let (node, cx) = (plan.node, Arc::new(cx));
            let view = state.as_ref().filter(|_| graph.has_routers(node)).map(|it| it.fork());
            let input = match (plan.payload, state) {
                (Some(payload), _) => TaskInput::Payload(payload),
                (None, state) => {
                    let state = state.unwrap_or_else(|| self.state.values.fork());
                    TaskInput::State(state.snapshot())
                }
            };
            let job =
                Job { graph: graph.clone(), node, cx, input, view, failed: None, runner: None };
            self.ahead().start(slot, job);
        }
        Ok(found_result)
    }

    /// Returns the tasks of later steps that can start, in the order of their steps.
    ///
    /// Advances a copy of the frontier from step to step, as if the tasks that are not done had led nowhere.
    fn early_starts(&self, declared: &DeclaredFields, tasks: &[StepTask]) -> Vec<EarlyStart> {
        let mut starts = Vec::new();
        let mut open = OpenTasks::default();
        let mut done: Vec<Vec<&TaskOutput>> = Vec::new();
        let mut frontier = self.frontier.fork();
        let current = in_task_order(tasks);
        let mut known: Vec<_> =
            current.map(|it| KnownTask { plan: it.plan.clone(), output: it.output() }).collect();
        for step in self.step + 1..=self.max_step.min(self.step + MAX_STEPS_AHEAD) {
            let known_sends = if open.0.is_empty() { known_sends(&known) } else { 0 };
            let unfinished = known.iter().filter(|it| it.output.is_none());
            open.0.extend(unfinished.map(|it| (step - 1, it.plan.node)));
            if open.0.is_empty() {
                break;
            }
            let outputs: Vec<_> = known.iter().filter_map(|it| it.output).collect();
            let plans = known.iter().map(|it| &it.plan);
            frontier.advance(&self.graph, plans, outputs.iter().copied());
            done.push(outputs);
            open.0.extend(frontier.deferred_nodes(&self.graph).map(|it| (step, it)));
            let mut planned = frontier.tasks(&self.graph, false).into_vec();
            planned.sort_unstable_by_key(PlannedTask::order);
            let (certain, uncertain): (Vec<_>, Vec<_>) =
                planned.into_iter().partition(|plan| match plan.kind {
                    TaskKind::Push(index) => index < known_sends,
                    _ => frontier.is_certain(&self.graph, plan.node, |source| {
                        open.may_run(declared, source, step)
                    }),
                });
            open.0.extend(uncertain.iter().map(|it| (step, it.node)));
            let mut has_failed = false;
            known = Vec::new();
            for plan in certain {
                let task = self.ahead.as_ref().and_then(|it| it.get((step, plan.order())));
                has_failed |= task.is_some_and(AheadTask::has_failed);
                let reads = declared.reads(plan.node).filter(|_| task.is_none());
                if let Some(reads) = reads.filter(|it| !open.may_write(declared, it, step)) {
                    if let Ok(state) = self.early_state(&plan, reads, &done) {
                        starts.push(EarlyStart { step, plan: plan.clone(), state });
                    }
                }
                known.push(KnownTask { plan, output: task.and_then(AheadTask::output) });
            }
            if known.is_empty() || has_failed {
                break;
            }
        }
        starts
    }

    /// Returns the state that a task of a later step sees: the committed state and the writes of all tasks before its
    /// step that are done, as far as they concern the fields that the node reads.
    fn early_state(
        &self,
        plan: &PlannedTask,
        reads: &FieldSet,
        done: &[Vec<&TaskOutput>],
    ) -> Result<Option<Box<dyn ErasedState>>, FieldError> {
        if plan.payload.is_some() && !self.graph.has_routers(plan.node) {
            return Ok(None);
        }
        let mut state = self.state.values.fork();
        for outputs in done {
            let mut updates = Vec::new();
            let mut fold = Fold::default();
            for update in outputs.iter().flat_map(|it| &it.updates) {
                let write_set = state.write_set(update)?;
                if write_set.written.intersects(reads) {
                    fold.mark_overwritten(&write_set.overwritten);
                    updates.push(state.clone_update(update)?);
                }
            }
            for mut update in updates {
                state.fold(&mut update, &mut fold)?;
            }
        }
        self.visible_state(plan.node, state).map(Some)
    }

    fn ahead(&mut self) -> &mut Ahead {
        self.ahead.as_mut().expect("only eager graphs run ahead")
    }

    /// Returns the records of tasks of later steps, which the next checkpoint has to contain as well.
    pub(super) fn early_records(&mut self) -> Vec<TaskRecord> {
        let Some(target) = &self.scope.record_target else { return Vec::new() };
        // From now on, running tasks store their records under both checkpoints.
        target.begin(self.history.id);
        let mut records = self.records.results_and_effects();
        if let Some(ahead) = &self.ahead {
            for task in ahead.iter().filter(|it| it.output().is_none()) {
                records.extend(task.cx.effect_records());
            }
        }
        records
    }

    /// Drops the records of the tasks of the current step, which is committed.
    pub(super) fn drop_committed_records(&mut self, tasks: &[StepTask]) {
        if self.ahead.is_some() && !self.records.tasks.is_empty() {
            for id in self.record_ids(tasks) {
                self.records.tasks.remove(&id);
            }
        }
    }

    /// Drops the results of tasks of later steps if they no longer apply, because the run changed the state that they
    /// were computed from.
    pub(super) fn drop_stale_records(&mut self, tasks: &[StepTask]) {
        let Some(ahead) = &mut self.ahead else { return };
        if !std::mem::replace(&mut ahead.uses_records, true) {
            let ids = self.record_ids(tasks);
            self.records.tasks.retain(|id, _| ids.contains(id));
        }
    }

    /// Returns the ids under which tasks of the current step and their error handlers are recorded.
    fn record_ids(&self, tasks: &[StepTask]) -> BTreeSet<TaskId> {
        let handler =
            |it: &StepTask| self.task_context(it.plan.node, TaskKind::Handler(it.cx.id())).id();
        tasks.iter().flat_map(|it| [it.cx.id(), handler(it)]).collect()
    }
}

/// Returns the number of payloads whose place among all payloads of the next step is known: those of the tasks before
/// the first one, in task order, that is not done.
fn known_sends(tasks: &[KnownTask<'_>]) -> u32 {
    let done = tasks.iter().map_while(|it| it.output);
    let sends = done.flat_map(|it| &it.targets).filter(|it| matches!(it, Target::Send(..)));
    u32::try_from(sends.count()).unwrap_or(u32::MAX)
}
