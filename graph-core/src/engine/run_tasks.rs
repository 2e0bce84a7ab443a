//! Runs the unfinished tasks of a step.

use crate::{
    cache::{CacheKey, CachedResult},
    checkpoint::id::TaskId,
    engine::{
        execute::{Job, Task, TaskOutcome, TaskOutput, error_outcome, route_on_copy, run_task},
        plan::StartInput,
        running::Engine,
        step::Slot,
        task_pool::TaskPool,
    },
    error::RunError,
    graph::erased::NodeIdx,
    namespace::without_task_ids,
    node::erased::TaskInput,
};

impl Engine {
    /// Runs all tasks that have no outcome yet.
    pub(super) async fn execute(&mut self, slots: &mut [Slot]) -> Result<(), RunError> {
        if self.scope.cache.is_some() {
            self.look_up_cache(slots).await?;
        }
        if let [only] = slots {
            if only.outcome.is_some() {
                return Ok(());
            }
            let report = match only.plan.node == self.graph.start {
                true => self.take_input(only, true).into(),
                false => run_task(self.job(only, true)).await,
            };
            return self.finish_task(only, report).await;
        }
        self.execute_many(slots).await
    }

    pub(super) async fn execute_many(&mut self, slots: &mut [Slot]) -> Result<(), RunError> {
        let open = slots.iter().filter(|it| it.outcome.is_none()).count();
        let limit = self.scope.settings.max_concurrency.unwrap_or(usize::MAX).max(1);
        let mut pool = TaskPool::new(open, limit);
        let mut next = 0;
        let mut failed = false;
        loop {
            // After a failure no new task is started, but running tasks may finish, so that their work is not lost.
            while !failed && pool.has_capacity() && next < slots.len() {
                let slot = &mut slots[next];
                if slot.outcome.is_none() && slot.plan.node == self.graph.start {
                    let outcome = self.take_input(slot, false);
                    self.finish_task(slot, outcome.into()).await?;
                    failed |= slot.has_failed();
                } else if slot.outcome.is_none() {
                    pool.start(next, self.job(slot, false));
                }
                next += 1;
            }
            if pool.must_wait() {
                self.flush_records().await?;
            }
            match pool.next().await {
                Some(Ok((index, report))) => {
                    self.finish_task(&mut slots[index], report).await?;
                    failed |= slots[index].has_failed();
                }
                // `run_task` catches panics of nodes, so this panic is a bug in the engine.
                Some(Err(error)) if error.is_panic() => {
                    std::panic::resume_unwind(error.into_panic());
                }
                Some(Err(_)) => return Err(RunError::Cancelled),
                None => return Ok(()),
            }
        }
    }

    pub(super) fn task(&self, slot: &Slot) -> Task {
        Task { graph: self.graph.clone(), node: slot.plan.node, cx: slot.cx.clone() }
    }

    fn job(&self, slot: &mut Slot, alone: bool) -> Job {
        let input = match slot.plan.payload.take() {
            Some(payload) => TaskInput::Payload(payload),
            None => TaskInput::State(self.state.snapshot()),
        };
        let copies =
            self.graph.has_routers(slot.plan.node) && !self.routes_in_place(slot.plan.node, alone);
        Job {
            task: self.task(slot),
            input,
            view: copies.then(|| self.state.fork()),
            failed: slot.failed.take(),
        }
    }

    /// Returns whether the routers can read the committed state instead of a copy.
    ///
    /// This saves a copy of the state, but it is possible only if a failing router does not require the commit to be
    /// undone. The task must therefore be the only one in its step and must not be retried, handled or cached, and the
    /// previous state must not be needed for a checkpoint. Nodes with a restricted view of the state are excluded,
    /// because their routers also see the node's own writes, which the fold consumes.
    fn routes_in_place(&self, node: NodeIdx, alone: bool) -> bool {
        let entry = self.graph.node(node);
        let options = &entry.options;
        alone
            && entry.reads.is_none()
            && options.retries.is_empty()
            && options.handler.is_none()
            && options.cache.is_none()
            && (self.stores_each_step() || self.scope.writer.is_none())
    }

    /// Executes START, which returns the run's input as its update.
    fn take_input(&mut self, slot: &Slot, alone: bool) -> TaskOutcome {
        let input = match &self.frontier.input {
            // With exit durability, the input must still be available for the checkpoint if START fails.
            Some(input) if self.stores_at_exit() => match self.state.clone_update(&input.update) {
                Ok(update) => Some(StartInput { update, gotos: input.gotos.clone() }),
                Err(error) => return TaskOutcome::Failed(Box::new(error.into())),
            },
            _ => self.frontier.input.take(),
        };
        let Some(StartInput { update, gotos }) = input else {
            return TaskOutcome::Done(TaskOutput::default());
        };
        let mut done = TaskOutput {
            updates: smallvec::smallvec![update],
            targets: gotos,
            ..TaskOutput::default()
        };
        if !self.routes_in_place(slot.plan.node, alone) {
            let routed = route_on_copy(&self.task(slot), &*self.state, &mut done);
            if let Err(error) = routed {
                return error_outcome(&slot.cx, error);
            }
        }
        TaskOutcome::Done(done)
    }

    /// Looks up tasks in the cache and completes those that have a cached result.
    pub(super) async fn look_up_cache(&mut self, slots: &mut [Slot]) -> Result<(), RunError> {
        let Some(cache) = self.scope.cache.clone() else { return Ok(()) };
        for slot in slots.iter_mut().filter(|it| it.outcome.is_none()) {
            if self.graph.node(slot.plan.node).options.cache.is_none() {
                continue;
            }
            let Some(input) = self.input_json(slot) else { continue };
            let namespace = without_task_ids(&self.scope.namespace);
            let graph = self.graph.name.as_bytes();
            let input =
                TaskId::from_parts(&[graph, namespace.as_bytes(), input.to_string().as_bytes()]);
            let key = CacheKey { node: slot.cx.node().to_owned(), input };
            let cached = cache.get(&key).await;
            // A cached result that no longer fits the state type counts as a cache miss.
            let fits = |it: &CachedResult| {
                self.output_from_record((it.writes.clone(), it.gotos.clone()), false)
            };
            if let Some((CachedResult { writes, gotos }, done)) =
                cached.and_then(|it| fits(&it).ok().map(|done| (it, done)))
            {
                self.emit_update(&slot.cx, &writes, &gotos, true, false).await;
                let event = self.done_event(writes, gotos);
                self.record(vec![slot.cx.record(event)]).await?;
                slot.outcome = Some(TaskOutcome::Done(done));
            }
            slot.cache_key = Some(Box::new(key));
        }
        Ok(())
    }
}
