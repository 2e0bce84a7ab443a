//! The tasks of a superstep.

use std::{ops::ControlFlow, sync::Arc};

use smallvec::SmallVec;

use crate::{
    cache::CacheKey,
    context::task::{TaskContext, TaskKind},
    engine::{
        execute::PendingFailure,
        outcome::{TaskOutcome, TaskOutput},
        plan::PlannedTask,
    },
    error::Halt,
    state::field::FieldWrite,
};

/// The tasks of a step, in the order in which they start. Most steps have one task.
pub(super) type StepTasks = SmallVec<[StepTask; 1]>;

/// A task of the current step and its outcome so far.
pub(super) struct StepTask {
    pub(super) plan: PlannedTask,
    pub(super) cx: Arc<TaskContext>,
    pub(super) outcome: Option<TaskOutcome>,
    /// The writes of a finished task until they are recorded. `None` if nothing records or reports them.
    pub(super) writes: Option<Vec<FieldWrite>>,
    /// Whether the task is done and is recorded only if its step does not complete.
    pub(super) recorded_later: bool,
    /// A failure from an earlier run that the error handler still has to handle.
    pub(super) failed: Option<Box<PendingFailure>>,
    pub(super) cache_key: Option<Box<CacheKey>>,
}

impl StepTask {
    pub(super) fn new(plan: PlannedTask, cx: Arc<TaskContext>) -> Self {
        Self {
            plan,
            cx,
            outcome: None,
            writes: None,
            recorded_later: false,
            failed: None,
            cache_key: None,
        }
    }

    pub(super) fn output(&self) -> Option<&TaskOutput> {
        match &self.outcome {
            Some(TaskOutcome::Done(output)) => Some(output),
            _ => None,
        }
    }

    pub(super) fn output_mut(&mut self) -> Option<&mut TaskOutput> {
        match &mut self.outcome {
            Some(TaskOutcome::Done(output)) => Some(output),
            _ => None,
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.outcome, Some(TaskOutcome::Failed(_)))
    }
}

/// Whether the graph continues after a step, or why it ended: `Break(None)` if it completed.
pub(super) type StepEnd = ControlFlow<Option<Halt>>;

/// Returns the tasks in [task order](PlannedTask::order).
pub(super) fn in_task_order(tasks: &[StepTask]) -> impl Iterator<Item = &StepTask> + Clone {
    let (pushes, pulls) = tasks.split_at(first_pull(tasks));
    pulls.iter().chain(pushes)
}

/// Returns the tasks in [task order](PlannedTask::order).
pub(super) fn in_task_order_mut(tasks: &mut [StepTask]) -> impl Iterator<Item = &mut StepTask> {
    let (pushes, pulls) = tasks.split_at_mut(first_pull(tasks));
    pulls.iter_mut().chain(pushes)
}

/// Returns the index of the task with this position in [task order](PlannedTask::order).
pub(super) fn position(tasks: &[StepTask], order: (bool, u32)) -> usize {
    let first_pull = first_pull(tasks);
    match order {
        (true, index) => index as usize,
        (false, node) => first_pull + tasks[first_pull..].partition_point(|it| it.plan.node < node),
    }
}

fn first_pull(tasks: &[StepTask]) -> usize {
    tasks.partition_point(|it| matches!(it.plan.kind, TaskKind::Push(_)))
}
