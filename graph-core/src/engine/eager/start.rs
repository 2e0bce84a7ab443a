//! Decides which tasks of later steps can start, and starts them.

use std::sync::Arc;

use crate::{
    context::{ahead::AheadContext, task::TaskKind},
    engine::{
        ahead::AheadTask,
        execute::Job,
        outcome::TaskOutput,
        plan::PlannedTask,
        running::Engine,
        step_task::{StepTask, in_task_order},
        target::Target,
    },
    error::RunError,
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
struct AheadStart {
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

/// The tasks that are not done, each with the number of its step and its node. Includes tasks that may never run, and
/// waiting deferred nodes with the first step that could run them.
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

    /// Returns the nodes of the open tasks in steps before `step`. Each node comes with the number of steps between the
    /// step of its task and `step`: a node that is more edges away than this number cannot run before `step`.
    fn before(&self, step: i64) -> impl Iterator<Item = (NodeIdx, usize)> {
        let earlier = self.0.iter().filter(move |(open, _)| *open < step);
        earlier.map(move |(open, node)| (*node, usize::try_from(step - 1 - open).unwrap_or(0)))
    }
}

impl Engine {
    /// Starts all tasks of later steps that can start.
    pub(super) fn run_ahead(&mut self, tasks: &[StepTask]) -> Result<(), RunError> {
        let stops = self.stop_before != Stops::None || self.stop_after != Stops::None;
        // Only finished tasks lead to tasks of later steps.
        let leads_nowhere = tasks.iter().all(|it| it.output().is_none());
        // Without a checkpointer, the results are lost if the run ends after the current step.
        let halted = |it: &StepTask| it.outcome.is_some() && it.output().is_none();
        let loses_results = self.scope.writer.is_none() && tasks.iter().any(halted);
        if stops || leads_nowhere || loses_results || self.scope.control.is_draining() {
            return Ok(());
        }
        // A recorded result can make further tasks startable.
        while self.start_tasks_ahead(tasks)? {}
        Ok(())
    }

    /// Starts tasks of later steps. Returns whether an earlier run recorded the result of one of them.
    fn start_tasks_ahead(&mut self, tasks: &[StepTask]) -> Result<bool, RunError> {
        let graph = self.graph.clone();
        let Some(declared) = &graph.declared_fields else { return Ok(false) };
        let mut found_result = false;
        for AheadStart { step, plan, state } in self.starts_ahead(declared, tasks) {
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
            cx.ahead = Some(Arc::new(AheadContext::new(waiting)));
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
            self.ahead().start_ahead(slot, job);
        }
        Ok(found_result)
    }

    /// Returns the tasks of later steps that can start, in the order of their steps.
    ///
    /// Advances a copy of the frontier from step to step, and ignores the targets of tasks that are not done.
    fn starts_ahead(&self, declared: &DeclaredFields, tasks: &[StepTask]) -> Vec<AheadStart> {
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
                    if let Ok(state) = self.state_ahead(&plan, reads, &done) {
                        starts.push(AheadStart { step, plan: plan.clone(), state });
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

    /// Returns the state that a task of a later step sees: the committed state, and those writes of completed tasks of
    /// earlier steps that concern a field that the node reads.
    fn state_ahead(
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
        Ok(Some(self.visible_state(plan.node, &*state)))
    }
}

/// Returns the number of payloads whose position among all payloads of the next step is known. These are the payloads
/// from the tasks that precede, in task order, the first task that is not done.
fn known_sends(tasks: &[KnownTask<'_>]) -> u32 {
    let done = tasks.iter().map_while(|it| it.output);
    let sends = done.flat_map(|it| &it.targets).filter(|it| matches!(it, Target::Send(..)));
    u32::try_from(sends.count()).unwrap_or(u32::MAX)
}
