//! Halt: ends a run before all tasks of a step are done.

use crate::{
    engine::{
        commit::CommitOptions,
        outcome::{TaskOutcome, TaskOutput},
        running::Engine,
        step_task::{StepEnd, StepTask, in_task_order},
    },
    error::{Halt, RunError},
    interrupt::StopReason,
};

impl Engine {
    /// Determines how the run ends if not all tasks are done. A failure takes precedence over interrupts.
    pub(super) async fn halt(&mut self, tasks: &mut [StepTask]) -> Result<StepEnd, RunError> {
        let mut interrupts = Vec::new();
        let (mut stop, mut command) = (None, None);
        for task in tasks.iter_mut() {
            match task.outcome.take() {
                Some(TaskOutcome::Failed(error)) => return Err(*error),
                Some(TaskOutcome::Halted(Halt::Interrupted(raised))) => interrupts.extend(raised),
                Some(TaskOutcome::Halted(Halt::Stopped(reason))) => stop = Some(reason),
                Some(TaskOutcome::Halted(Halt::ParentCommand(sent))) => {
                    command = Some((task.cx.node().to_owned(), sent));
                }
                done @ (Some(TaskOutcome::Done(_)) | None) => task.outcome = done,
            }
        }
        if let Some((node, command)) = command {
            return match self.scope.parent {
                Some(_) => Ok(StepEnd::Break(Some(Halt::ParentCommand(command)))),
                None => Err(RunError::NoParent { node }),
            };
        }
        self.publish_finished_tasks(tasks).await?;
        if interrupts.is_empty() {
            return Ok(self.stop(stop.unwrap_or(StopReason::Drained)).await);
        }
        Ok(StepEnd::Break(Some(Halt::Interrupted(interrupts))))
    }

    /// Publishes the state of an interrupted step, including the writes of the step's finished tasks.
    async fn publish_finished_tasks(&mut self, tasks: &[StepTask]) -> Result<(), RunError> {
        if self.scope.parent.is_some() || !tasks.iter().any(|it| it.output().is_some()) {
            return Ok(());
        }
        let mut state = self.state.fork();
        let mut copies = Vec::new();
        for output in in_task_order(tasks).filter_map(StepTask::output) {
            let updates = output.updates.iter().map(|it| state.values.clone_update(it));
            copies.push(TaskOutput::new(output.node, updates.collect::<Result<_, _>>()?));
        }
        let options = CommitOptions { collect_changes: false, ..self.commit_options(true) };
        let committed = state.commit(&self.graph, &mut copies, options)?;
        let wrote_output = committed.changed.intersects(&self.graph.output);
        if !committed.changed.is_empty() {
            self.publish_values(&*state.values, wrote_output).await;
        }
        self.has_output |= wrote_output;
        self.exit_state = Some(state.values.snapshot());
        Ok(())
    }

    pub(super) async fn stop(&self, reason: StopReason) -> StepEnd {
        if self.scope.parent.is_none() && reason != StopReason::Drained {
            self.publish_interrupts(&[]).await;
        }
        StepEnd::Break(Some(Halt::Stopped(reason)))
    }
}
