//! Execute in eager graphs: while the current step waits for its tasks, tasks of later steps run ahead.
//!
//! Steps are still committed in order, so everything that a run stores and reports is the same as without running
//! ahead. The section "Eager graphs" of `ARCHITECTURE.md` defines the rules. [`start`] decides which tasks run ahead,
//! [`declared`] checks what nodes declare, and [`records`] keeps the results of tasks that ran ahead.

mod declared;
mod records;
mod start;

use crate::{
    engine::{
        execute::Execution,
        outcome::TaskOutcome,
        running::Engine,
        step_task::{StepTask, position},
        target::goto_records,
    },
    error::{Halt, RunError},
};

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
                    let job = self.job(&mut tasks[next], false);
                    self.ahead().start(slot, job);
                }
                next += 1;
            }
            if taken == 0 {
                for task in tasks.iter().filter(|it| it.outcome.is_none()) {
                    task.cx.reach_step().await;
                }
            }
            // A task that ran ahead and failed must not prevent the tasks before it from starting, because the first
            // failure in task order is reported.
            failed |= self.take_results_ahead(&mut tasks[taken..next]).await?;
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
                None => self.end_task_ahead(slot, execution).await?,
            }
        }
    }

    /// Runs tasks of later steps until no more can start, if the run ends after the current step. Their results are
    /// recorded for the next run.
    pub(super) async fn run_branches_to_end(&mut self, tasks: &[StepTask]) -> Result<(), RunError> {
        if !self.waits_for_tasks_ahead(tasks) {
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
                Some((slot, execution)) => self.end_task_ahead(slot, execution).await?,
                None => return Ok(()),
            }
        }
    }

    /// Ends the tasks of the current step that ran ahead and have completed. Returns whether one of them failed.
    async fn take_results_ahead(&mut self, tasks: &mut [StepTask]) -> Result<bool, RunError> {
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

    /// Returns whether this step waits for running tasks of later steps before it ends. It does if the run ends after
    /// the step and the results of these tasks can be recorded.
    fn waits_for_tasks_ahead(&self, tasks: &[StepTask]) -> bool {
        let ends_graph =
            |it: &StepTask| matches!(it.outcome, Some(TaskOutcome::Halted(Halt::ParentCommand(_))));
        let is_incomplete = tasks.iter().any(|it| it.output().is_none());
        is_incomplete && self.scope.writer.is_some() && !tasks.iter().any(ends_graph)
    }

    /// Waits for the running tasks at the end of a run, and sends the events that were held back.
    pub(super) async fn finish_tasks_ahead(&mut self, wait: bool) -> Result<(), RunError> {
        if self.ahead.as_ref().is_none_or(|it| it.is_empty()) {
            return Ok(());
        }
        if wait && self.scope.writer.is_some() {
            while let Some((slot, execution)) = self.ahead().next_unless_waiting().await? {
                self.end_task_ahead(slot, execution).await?;
            }
        }
        for task in self.ahead().iter().map(|it| it.cx.clone()).collect::<Vec<_>>() {
            task.release_events().await;
        }
        Ok(())
    }

    /// Stores the outcome of a task of a later step, and records its result.
    async fn end_task_ahead(
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
}
