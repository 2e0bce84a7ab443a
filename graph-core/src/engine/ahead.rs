//! The tasks of an eager graph: the running tasks of the current step, and the tasks of later steps that run ahead.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::watch;

use crate::{
    context::task::TaskContext,
    engine::{
        execute::{Execution, Job},
        outcome::{TaskOutcome, TaskOutput},
        task_pool::TaskPool,
    },
    error::RunError,
};

/// Identifies a task: the number of its step, and its position in [task order](super::plan::PlannedTask::order).
pub(super) type Slot = (i64, (bool, u32));

/// The tasks of an eager graph.
pub(super) struct Ahead {
    /// The tasks that started before their step, until their step takes their results.
    tasks: BTreeMap<Slot, AheadTask>,
    pool: TaskPool,
    /// All running tasks, by their number in the pool.
    running: BTreeMap<usize, Slot>,
    started: usize,
    /// Number of running tasks that wait for their step before they start a subgraph.
    pub(super) waiting: Arc<watch::Sender<usize>>,
    /// Whether results recorded by earlier runs apply to tasks of later steps.
    pub(super) uses_records: bool,
}

pub(super) struct AheadTask {
    pub(super) cx: Arc<TaskContext>,
    status: Status,
}

enum Status {
    Running,
    Ended(Execution),
    /// An earlier run recorded the result.
    Recorded(TaskOutput),
}

impl AheadTask {
    pub(super) fn output(&self) -> Option<&TaskOutput> {
        match &self.status {
            Status::Ended(Execution { outcome: TaskOutcome::Done(output), .. })
            | Status::Recorded(output) => Some(output),
            _ => None,
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        let Status::Ended(execution) = &self.status else { return false };
        matches!(execution.outcome, TaskOutcome::Failed(_))
    }
}

impl Ahead {
    /// Creates an empty set of tasks, of which at most `max_running` run concurrently.
    pub(super) fn new(max_running: usize) -> Self {
        Self {
            tasks: BTreeMap::new(),
            pool: TaskPool::spawning(1, max_running),
            running: BTreeMap::new(),
            started: 0,
            waiting: Arc::default(),
            uses_records: true,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&AheadTask> {
        self.tasks.get(&slot)
    }

    /// Returns the tasks that started before their step and have not been taken, in the order of their steps.
    pub(super) fn iter(&self) -> impl Iterator<Item = &AheadTask> {
        self.tasks.values()
    }

    /// Returns whether a task of the step, or of an earlier one, is running.
    pub(super) fn is_running(&self, step: i64) -> bool {
        self.running.values().any(|slot| slot.0 <= step)
    }

    pub(super) fn has_capacity(&self) -> bool {
        self.pool.has_capacity()
    }

    /// Returns whether a task has ended but has not been returned by [`next`](Self::next) yet.
    pub(super) fn has_ended(&self) -> bool {
        !self.running.is_empty() && !self.pool.must_wait()
    }

    /// Starts a task of a later step.
    pub(super) fn start_ahead(&mut self, slot: Slot, job: Job) {
        let task = AheadTask { cx: job.cx.clone(), status: Status::Running };
        self.tasks.insert(slot, task);
        self.start(slot, job);
    }

    /// Starts a task of the current step.
    pub(super) fn start(&mut self, slot: Slot, job: Job) {
        self.running.insert(self.started, slot);
        self.pool.start(self.started, job);
        self.started += 1;
    }

    /// Adds a task whose result an earlier run recorded.
    pub(super) fn add_recorded(&mut self, slot: Slot, cx: Arc<TaskContext>, output: TaskOutput) {
        self.tasks.insert(slot, AheadTask { cx, status: Status::Recorded(output) });
    }

    /// Returns the context of a task that started before its step. If an earlier run recorded the result of the task,
    /// removes the task and returns `None`.
    pub(super) fn context_or_remove(&mut self, slot: Slot) -> Option<Arc<TaskContext>> {
        match self.tasks.get(&slot)?.status {
            Status::Recorded(_) => {
                self.tasks.remove(&slot);
                None
            }
            _ => self.tasks.get(&slot).map(|it| it.cx.clone()),
        }
    }

    /// Removes a task that has ended.
    pub(super) fn take_ended(&mut self, slot: Slot) -> Option<Execution> {
        match self.tasks.get(&slot)?.status {
            Status::Ended(_) => match self.tasks.remove(&slot)?.status {
                Status::Ended(execution) => Some(execution),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn set_ended(&mut self, slot: Slot, execution: Execution) {
        if let Some(task) = self.tasks.get_mut(&slot) {
            task.status = Status::Ended(execution);
        }
    }

    /// Removes a task that [`next`](Self::next) returned. Does nothing unless the task started before its step.
    pub(super) fn remove(&mut self, slot: Slot) {
        self.tasks.remove(&slot);
    }

    /// Returns the next task that ended, in completion order, or `None` if no task is running.
    pub(super) async fn next(&mut self) -> Result<Option<(Slot, Execution)>, RunError> {
        let Some((number, execution)) = self.pool.next().await? else { return Ok(None) };
        let slot = self.running.remove(&number).expect("a task ends once");
        Ok(Some((slot, execution)))
    }

    /// Like [`next`](Self::next), but also returns `None` once all running tasks wait for their step.
    pub(super) async fn next_unless_waiting(
        &mut self,
    ) -> Result<Option<(Slot, Execution)>, RunError> {
        let mut waiting = self.waiting.subscribe();
        loop {
            if *waiting.borrow_and_update() >= self.running.len() {
                return Ok(None);
            }
            tokio::select! {
                ended = self.next() => return ended,
                _ = waiting.changed() => {}
            }
        }
    }
}
