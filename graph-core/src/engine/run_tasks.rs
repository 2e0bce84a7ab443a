//! Run tasks: the open tasks of a step, one alone or all at once.

use super::{
    Engine,
    execute::{Done, Job, TaskEnd, end, route_on_copy, run_task},
    plan::StartInput,
    step::Slot,
    team::Team,
};
use crate::{
    RunError,
    cache::{CacheKey, Cached},
    checkpoint::TaskId,
    graph::NodeIdx,
    node::TaskInput,
    subgraph::without_task_ids,
};

impl Engine {
    /// Runs all tasks that are not done yet.
    pub(super) async fn execute(&mut self, slots: &mut [Slot]) -> Result<(), RunError> {
        if self.scope.cache.is_some() {
            self.look_up(slots).await?;
        }
        if let [only] = slots {
            if only.end.is_some() {
                return Ok(());
            }
            let report = match only.plan.node == self.scope.graph.start {
                true => self.take_input(only, true).into(),
                false => run_task(self.job(only, true)).await,
            };
            return self.finish(only, report).await;
        }
        self.execute_many(slots).await
    }

    pub(super) async fn execute_many(&mut self, slots: &mut [Slot]) -> Result<(), RunError> {
        let open = slots.iter().filter(|it| it.end.is_none()).count();
        let limit = self.scope.settings.concurrency.unwrap_or(usize::MAX).max(1);
        let mut team = Team::new(open, limit);
        let mut next = 0;
        let mut failed = false;
        loop {
            // After a failure nothing new is started, but what runs may finish: it is paid for.
            while !failed && team.has_room() && next < slots.len() {
                let slot = &mut slots[next];
                if slot.end.is_none() && slot.plan.node == self.scope.graph.start {
                    let end = self.take_input(slot, false);
                    self.finish(slot, end.into()).await?;
                    failed |= slot.has_failed();
                } else if slot.end.is_none() {
                    team.start(next, self.job(slot, false));
                }
                next += 1;
            }
            if team.has_to_wait() {
                self.settle().await?;
            }
            match team.next().await {
                Some(Ok((index, report))) => {
                    self.finish(&mut slots[index], report).await?;
                    failed |= slots[index].has_failed();
                }
                // Nodes' panics are caught, so this one is not a node's.
                Some(Err(error)) if error.is_panic() => {
                    std::panic::resume_unwind(error.into_panic());
                }
                Some(Err(_)) => return Err(RunError::Cancelled),
                None => return Ok(()),
            }
        }
    }

    fn job(&self, slot: &mut Slot, alone: bool) -> Job {
        let input = match slot.plan.payload.take() {
            Some(payload) => TaskInput::Payload(payload),
            None => TaskInput::State(self.state.snapshot()),
        };
        let copies = self.scope.graph.has_routers(slot.plan.node)
            && !self.routes_in_place(slot.plan.node, alone);
        Job {
            cx: slot.cx.clone(),
            input,
            view: copies.then(|| self.state.fork()),
            failed: slot.failed.take(),
        }
    }

    /// Whether the routers of a task can look at the state itself once the task's writes are folded in.
    ///
    /// That saves a copy of the state, but only works where a router that fails needs nothing undone: the task is
    /// alone, is not tried again, and no checkpoint is made of the state from before. A node that sees some fields
    /// only shows its routers what it wrote besides, and the fold takes that apart.
    fn routes_in_place(&self, node: NodeIdx, alone: bool) -> bool {
        let entry = self.scope.graph.node(node);
        let options = &entry.options;
        alone
            && entry.reads.is_none()
            && options.retries.is_empty()
            && options.handler.is_none()
            && options.cache.is_none()
            && (self.stores_each_step() || self.scope.writer.is_none())
    }

    /// START's own work: the input becomes its update.
    fn take_input(&mut self, slot: &Slot, alone: bool) -> TaskEnd {
        let input = match &self.frontier.input {
            // A run that is stored at its end has to store the input if START fails.
            Some(input) if self.stores_at_exit() => match self.state.clone_update(&input.update) {
                Ok(update) => Some(StartInput { update, gotos: input.gotos.clone() }),
                Err(error) => return TaskEnd::Failed(Box::new(error.into())),
            },
            _ => self.frontier.input.take(),
        };
        let Some(StartInput { update, gotos }) = input else {
            return TaskEnd::Done(Done::default());
        };
        let mut done =
            Done { updates: smallvec::smallvec![update], hops: gotos, ..Done::default() };
        if !self.routes_in_place(slot.plan.node, alone) {
            let routed = route_on_copy(&slot.cx, &*self.state, &mut done);
            if let Err(error) = routed {
                return end(&slot.cx, error);
            }
        }
        TaskEnd::Done(done)
    }

    /// Takes results of equal inputs from the cache.
    pub(super) async fn look_up(&mut self, slots: &mut [Slot]) -> Result<(), RunError> {
        let Some(cache) = self.scope.cache.clone() else { return Ok(()) };
        for slot in slots.iter_mut().filter(|it| it.end.is_none()) {
            if self.scope.graph.node(slot.plan.node).options.cache.is_none() {
                continue;
            }
            let Some(input) = self.input_json(slot) else { continue };
            let place = without_task_ids(&self.scope.namespace);
            let graph = self.scope.graph.name.as_bytes();
            let input = TaskId::of(&[graph, place.as_bytes(), input.to_string().as_bytes()]);
            let key = CacheKey { node: slot.cx.node().to_owned(), input };
            let cached = cache.get(&key).await;
            // A result that does not fit the state any more is as good as none.
            let fits = |it: &Cached| self.replayed((it.writes.clone(), it.gotos.clone()), false);
            if let Some((Cached { writes, gotos }, done)) =
                cached.and_then(|it| fits(&it).ok().map(|done| (it, done)))
            {
                self.show_update(&slot.cx, &writes, &gotos, true, false).await;
                let event = self.done_event(writes, gotos);
                self.record(vec![slot.cx.record(event)]).await?;
                slot.end = Some(TaskEnd::Done(done));
            }
            slot.cache_key = Some(Box::new(key));
        }
        Ok(())
    }
}
