//! Stores the outcome of tasks in the checkpointer and the cache, and reports it on the stream.

use crate::{
    cache::{CacheKey, CachedResult},
    checkpoint::{
        id::TaskId,
        record::{GotoRecord, TaskEvent, TaskRecord},
    },
    context::task::TaskContext,
    engine::{
        execute::{Execution, HandledFailure},
        outcome::{TaskOutcome, TaskOutput},
        publish_failure::publish_failure,
        running::Engine,
        step_task::StepTask,
        target::{goto_records, stored_targets},
    },
    error::{Halt, RunError},
    graph::erased::NodeIdx,
    namespace::without_task_ids,
    state::field::{FieldError, FieldWrite},
};

impl Engine {
    /// Looks up tasks in the cache and completes those that have a cached result.
    pub(super) async fn look_up_cache(&mut self, tasks: &mut [StepTask]) -> Result<(), RunError> {
        let Some(cache) = self.scope.cache.clone() else { return Ok(()) };
        for task in tasks.iter_mut().filter(|it| it.outcome.is_none()) {
            let node = task.plan.node;
            if self.graph.node(node).options.cache.is_none() {
                continue;
            }
            let Some(input) = self.input_json(task) else { continue };
            let namespace = without_task_ids(&self.scope.namespace);
            let graph = self.graph.name.as_bytes();
            let input =
                TaskId::from_parts(&[graph, namespace.as_bytes(), input.to_string().as_bytes()]);
            let key = CacheKey { node: task.cx.node().to_owned(), input };
            let cached = cache.get(&key).await;
            task.cache_key = Some(Box::new(key));
            let Some(CachedResult { writes, gotos }) = cached else { continue };
            // A cached result that no longer fits the state type counts as a cache miss.
            let output = self.output_from_record(node, (writes.clone(), gotos.clone()));
            let Ok(output) = output else { continue };
            self.publish_update(&task.cx, &writes, &gotos, true, false).await;
            let event = self.done_event(writes, gotos);
            self.record(vec![task.cx.record(event)]).await?;
            task.outcome = Some(TaskOutcome::Done(output));
        }
        Ok(())
    }

    pub(super) fn output_from_record(
        &self,
        node: NodeIdx,
        (writes, gotos): (Vec<FieldWrite>, Vec<GotoRecord>),
    ) -> Result<TaskOutput, FieldError> {
        let output = TaskOutput::new(node, self.state.updates_from(writes)?);
        Ok(TaskOutput { targets: stored_targets(&self.graph, gotos), routed: true, ..output })
    }

    /// Stores how a task ended. Also records the end of the task, unless its routers still have to be called.
    pub(super) async fn end_task(
        &mut self,
        task: &mut StepTask,
        execution: Execution,
    ) -> Result<(), RunError> {
        let Execution { outcome, handled } = execution;
        match self.set_outcome(task, outcome) {
            true => self.record_end(task, handled.as_deref()).await,
            false => Ok(()),
        }
    }

    /// Stores how a task ended. Returns whether it must be recorded now.
    pub(super) fn set_outcome(&self, task: &mut StepTask, mut outcome: TaskOutcome) -> bool {
        if self.ahead.is_some() {
            self.check_declared(&task.cx, &mut outcome);
        }
        let mut is_final = true;
        if let TaskOutcome::Done(output) = &mut outcome {
            output.routed |= !self.graph.has_routers(task.plan.node);
            is_final = output.routed;
            task.recorded_later = is_final
                && !output.handled
                && task.cache_key.is_none()
                && self.converts_when_stored();
            // The writes are collected now, because the commit consumes the updates.
            if !task.recorded_later && self.records_end(task) {
                match self.checked_writes(output) {
                    Ok(writes) => task.writes = Some(writes),
                    Err(error) => {
                        outcome = TaskOutcome::Failed(Box::new(error.into()));
                        is_final = true;
                    }
                }
            }
        }
        task.outcome = Some(outcome);
        is_final && !task.recorded_later && self.records_end(task)
    }

    /// Records the finished tasks of a step that does not complete, unless they were recorded when they ended. A task
    /// whose result cannot be stored fails.
    pub(super) fn record_finished(&mut self, tasks: &mut [StepTask]) {
        for task in tasks.iter_mut().filter(|it| it.recorded_later) {
            let Some(output) = task.output() else { continue };
            let writes = self.checked_writes(output);
            let result =
                writes.and_then(|it| Ok((it, goto_records(&self.graph, &output.targets)?)));
            match result {
                Ok((writes, gotos)) => {
                    let record = task.cx.record(self.done_event(writes, gotos));
                    self.history.buffered_records.push(record);
                }
                Err(error) => {
                    let event = TaskEvent::Failed { error: error.to_string(), handled: false };
                    let records = &mut self.history.buffered_records;
                    records.push(task.cx.record(event));
                    records.extend(resume_record(&task.cx));
                    task.outcome = Some(TaskOutcome::Failed(Box::new(error.into())));
                }
            }
        }
    }

    /// Returns whether a checkpointer, a stream reader or the cache needs to know how the task ended.
    pub(super) fn records_end(&self, task: &StepTask) -> bool {
        self.scope.writer.is_some() || self.scope.events.is_some() || task.cache_key.is_some()
    }

    /// Records the end of a task in the checkpointer and the cache, and sends its events. Called only if
    /// [`records_end`](Self::records_end) returns true.
    pub(super) async fn record_end(
        &mut self,
        task: &mut StepTask,
        handled: Option<&HandledFailure>,
    ) -> Result<(), RunError> {
        let mut records = Vec::new();
        if let Some(HandledFailure { failure, .. }) = handled {
            let event = TaskEvent::Failed { error: failure.error.clone(), handled: true };
            records.push(task.cx.record(event));
        }
        let cx = handled.map_or(&task.cx, |it| &it.handler);
        match &task.outcome {
            Some(TaskOutcome::Done(output)) => {
                let writes = task.writes.take().unwrap_or_default();
                let gotos = goto_records(&self.graph, &output.targets)?;
                // The output of an error handler is not cached.
                if let (None, Some(key), Some(cache)) =
                    (handled, &task.cache_key, &self.scope.cache)
                {
                    let policy = self.graph.node(output.node).options.cache;
                    let result = CachedResult { writes: writes.clone(), gotos: gotos.clone() };
                    cache.put((**key).clone(), result, policy.unwrap_or_default().ttl).await;
                }
                if output.node != self.graph.start {
                    self.publish_output(cx, &writes, &gotos, output.handled).await;
                }
                records.push(cx.record(self.done_event(writes, gotos)));
            }
            Some(TaskOutcome::Failed(error)) => {
                let error = task_error(error);
                publish_failure(cx, &error, handled.is_some()).await;
                records.push(cx.record(TaskEvent::Failed { error, handled: false }));
                records.extend(resume_record(cx));
            }
            Some(TaskOutcome::Halted(Halt::Interrupted(interrupts))) => {
                self.publish_interrupted_task(cx, interrupts, handled.is_some()).await;
                let interrupts = interrupts.clone();
                records.push(cx.record(TaskEvent::Interrupted { interrupts }));
                records.extend(resume_record(cx));
            }
            Some(TaskOutcome::Halted(Halt::ParentCommand(_) | Halt::Stopped(_))) | None => {}
        }
        self.record(records).await
    }
}

fn resume_record(task: &TaskContext) -> Option<TaskRecord> {
    // An empty list is recorded too, because it replaces values that did not have the expected type.
    task.has_memory().then(|| task.record(TaskEvent::Resumed { values: task.resume_values() }))
}

/// Returns the message to record for a failed task. It is the node's own error, without the node name and the step.
fn task_error(error: &RunError) -> String {
    match error {
        RunError::Node { error, .. } => error.to_string(),
        error => error.to_string(),
    }
}
