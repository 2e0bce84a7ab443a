//! One superstep: plan, execute, commit.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{
    Ended, Engine,
    commit::{self, Committed, Writes},
    execute::{Done, LeftToHandler, TaskEnd, route, within},
    load::{damaged, stored_hops, updates},
    persist::Durability,
    plan::{Planned, Ways},
};
use crate::{
    FieldWrite, RunError,
    cache::CacheKey,
    checkpoint::{GotoRecord, Source},
    context::{Failure, TaskContext, TaskKind},
    error::Stop,
    graph::{NodeIdx, Stops},
    node::TaskInput,
    state::FieldError,
};

/// The tasks of a step: one, mostly.
type Slots = SmallVec<[Slot; 1]>;

/// A task of the step, with what is known of it.
pub(super) struct Slot {
    pub(super) plan: Planned,
    pub(super) cx: Arc<TaskContext>,
    pub(super) end: Option<TaskEnd>,
    /// The failure that an earlier run left to the handler.
    pub(super) failed: Option<Box<LeftToHandler>>,
    pub(super) cache_key: Option<Box<CacheKey>>,
}

impl Slot {
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.end, Some(TaskEnd::Failed(_)))
    }

    pub(super) fn done(&self) -> Option<&Done> {
        match &self.end {
            Some(TaskEnd::Done(done)) => Some(done),
            _ => None,
        }
    }
}

impl Engine {
    /// One superstep; `Some` when the run is over.
    pub(super) async fn tick(&mut self) -> Result<Option<Ended>, RunError> {
        // Gives way to other tasks of the runtime now and then, as a loop of ready futures would not.
        tokio::task::consume_budget().await;
        if self.step > self.stop {
            return Err(RunError::StepLimit { limit: self.scope.settings.limit });
        }
        let mut slots = self.plan()?;
        self.show_checkpoint(&slots).await;
        if slots.is_empty() {
            return Ok(Some(Ended::Done));
        }
        if self.stops_before(&slots) {
            return Ok(Some(self.stop_at(Stop::Before).await));
        }
        if self.scope.control.is_draining() {
            return Ok(Some(Ended::Stopped(Stop::Drained)));
        }
        self.announce(&slots).await;
        match self.scope.graph.step_timeout {
            None => self.execute(&mut slots).await?,
            Some(limit) => match within(limit, self.execute(&mut slots)).await {
                Some(result) => result?,
                None => return Err(RunError::StepTimeout { step: self.step, limit }),
            },
        }
        if slots.iter().any(|it| it.done().is_none()) {
            return self.halted(&mut slots).await.map(Some);
        }
        let committed = match self.commit(&mut slots).await {
            Err(RunError::Conflict(conflict)) if self.stores_at_exit() => {
                self.keep_until(&conflict, &slots)?;
                return Err(RunError::Conflict(conflict));
            }
            result => result?,
        };
        self.advance(&slots);
        self.moved_on(committed).await?;
        if self.stops_after(&slots) {
            return Ok(Some(self.stop_at(Stop::After).await));
        }
        self.spare = slots.pop().map(|it| it.cx);
        Ok(None)
    }

    /// The tasks of the step, with what earlier runs left behind for them.
    fn plan(&mut self) -> Result<Slots, RunError> {
        let graph = self.scope.graph.clone();
        // What is not stored is not needed once it is handed out.
        let planned = self.frontier.tasks(&graph, self.scope.writer.is_none());
        let mut slots = Slots::with_capacity(planned.len());
        for plan in planned {
            let mut cx = self.next_context(plan.node, plan.kind);
            let (mut end, mut failed) = (None, None);
            if !self.records.tasks.is_empty()
                && let Some(task) = Arc::get_mut(&mut cx)
            {
                (end, failed) = self.recall(task)?;
            }
            slots.push(Slot { plan, cx, end, failed, cache_key: None });
        }
        Ok(slots)
    }

    pub(super) fn task_context(&self, node: NodeIdx, kind: TaskKind) -> TaskContext {
        TaskContext::new(
            self.scope.clone(),
            node,
            kind,
            self.step,
            self.stop,
            self.origin,
            self.id,
            self.resuming,
        )
    }

    /// A context for a task: the last one's memory, if nobody holds it any more.
    fn next_context(&mut self, node: NodeIdx, kind: TaskKind) -> Arc<TaskContext> {
        let fresh = self.task_context(node, kind);
        if let Some(mut spare) = self.spare.take()
            && let Some(old) = Arc::get_mut(&mut spare)
        {
            *old = fresh;
            return spare;
        }
        Arc::new(fresh)
    }

    /// Gives a task what was recorded of it: its result, or what its handler has still to deal with.
    fn recall(
        &self,
        cx: &mut TaskContext,
    ) -> Result<(Option<TaskEnd>, Option<Box<LeftToHandler>>), RunError> {
        let Some(log) = self.records.tasks.get(&cx.id()).cloned() else { return Ok((None, None)) };
        cx.remember(log.answers, log.effects);
        if self.replaying {
            return Ok((None, None));
        }
        if let Some(result) = log.done {
            return Ok((Some(TaskEnd::Done(self.recorded(result, false)?)), None));
        }
        let handler = self.scope.graph.node(cx.node).options.handler.is_some();
        let failure = match log.failed {
            Some((error, true)) if handler => Failure { node: cx.node().to_owned(), error },
            _ => return Ok((None, None)),
        };
        let handler = cx.handler(failure.clone()).id();
        let log = self.records.tasks.get(&handler).cloned().unwrap_or_default();
        match log.done {
            Some(result) => Ok((Some(TaskEnd::Done(self.recorded(result, true)?)), None)),
            None => {
                let (answers, effects) = (log.answers, log.effects);
                Ok((None, Some(Box::new(LeftToHandler { failure, answers, effects }))))
            }
        }
    }

    /// The result a checkpoint's records hold.
    fn recorded(
        &self,
        result: (Vec<FieldWrite>, Vec<GotoRecord>),
        handled: bool,
    ) -> Result<Done, RunError> {
        self.replayed(result, handled).map_err(|error| damaged(&self.place(), &error).into())
    }

    pub(super) fn replayed(
        &self,
        (writes, gotos): (Vec<FieldWrite>, Vec<GotoRecord>),
        handled: bool,
    ) -> Result<Done, FieldError> {
        Ok(Done {
            updates: updates(&*self.state, writes)?,
            hops: stored_hops(&self.scope.graph, gotos),
            routed: true,
            handled,
        })
    }

    async fn show_checkpoint(&self, slots: &[Slot]) {
        if self.scope.events.is_some() {
            let name = |it: &Slot| self.scope.graph.node(it.plan.node).label.to_string();
            self.show_checkpoint_event(|| slots.iter().map(name).collect()).await;
        }
    }

    /// Tells who watches what the step will do, and what it need not do again.
    async fn announce(&self, slots: &[Slot]) {
        if self.scope.events.is_none() {
            return;
        }
        for slot in self.visible(slots) {
            let input = || self.input_json(slot).unwrap_or_default();
            self.show_start(&slot.cx, input).await;
        }
        for slot in self.visible(slots) {
            if let Some(done) = slot.done() {
                let writes = self.writes_of(done).unwrap_or_default();
                let hops = done.hops.iter().map(|it| it.to_record(&self.scope.graph));
                let gotos: Vec<_> = hops.filter_map(Result::ok).collect();
                self.show_update(&slot.cx, &writes, &gotos, true, done.handled).await;
            }
        }
    }

    fn visible<'a>(&self, slots: &'a [Slot]) -> impl Iterator<Item = &'a Slot> {
        let start = self.scope.graph.start;
        slots.iter().filter(move |it| it.plan.node != start)
    }

    fn input(&self, slot: &Slot) -> TaskInput {
        match &slot.plan.payload {
            Some(payload) => TaskInput::Payload(payload.clone()),
            None => TaskInput::State(self.state.snapshot()),
        }
    }

    pub(super) fn input_json(&self, slot: &Slot) -> Option<serde_json::Value> {
        let body = self.scope.graph.node(slot.plan.node).body.as_ref()?;
        body.0.describe(&self.input(slot), &slot.cx)
    }

    /// What the run comes to where not all tasks are done.
    async fn halted(&mut self, slots: &mut [Slot]) -> Result<Ended, RunError> {
        let mut interrupts = Vec::new();
        let (mut stop, mut parent) = (None, None);
        for slot in slots.iter_mut() {
            match &slot.end {
                Some(TaskEnd::Failed(error)) => return Err((**error).clone()),
                Some(TaskEnd::Asked(asked)) => interrupts.extend(asked.iter().cloned()),
                Some(TaskEnd::Stopped(why)) => stop = Some(*why),
                Some(TaskEnd::Parent(_)) => {
                    if let Some(TaskEnd::Parent(command)) = slot.end.take() {
                        parent = Some((slot.cx.node().to_owned(), command));
                    }
                }
                Some(TaskEnd::Done(_)) | None => {}
            }
        }
        if let Some((node, command)) = parent {
            return match self.scope.parent {
                Some(_) => Ok(Ended::Parent(command)),
                None => Err(RunError::NoParent { node }),
            };
        }
        self.show_finished_siblings(slots).await?;
        if interrupts.is_empty() {
            return Ok(self.stop_at(stop.unwrap_or(Stop::Drained)).await);
        }
        Ok(Ended::Asked(interrupts))
    }

    /// At a question, shows the state once more with what the finished siblings wrote.
    async fn show_finished_siblings(&mut self, slots: &[Slot]) -> Result<(), RunError> {
        if self.scope.parent.is_some() || !slots.iter().any(|it| it.done().is_some()) {
            return Ok(());
        }
        let mut state = self.state.fork();
        let mut live = self.live.clone();
        let mut copies = Vec::new();
        for slot in in_task_order(slots) {
            if let Some(done) = slots[slot].done() {
                let copied = done.updates.iter().map(|it| state.clone_update(it));
                copies.push((slots[slot].plan.node, copied.collect::<Result<Vec<_>, _>>()?));
            }
        }
        let mut writes: Vec<_> =
            copies.iter_mut().map(|(node, updates)| Writes { node: *node, updates }).collect();
        let mode = commit::Mode { records: false, ..self.mode(true) };
        let committed =
            commit::commit(&self.scope.graph, &mut *state, &mut live, &mut writes, mode)?;
        let output = committed.changed.intersects(&self.scope.graph.output);
        if !committed.changed.is_empty() {
            self.show_values(&*state, output).await;
        }
        self.shown |= output;
        self.ended_with = Some(state.snapshot());
        Ok(())
    }

    /// Folds what the tasks wrote, in task order.
    async fn commit(&mut self, slots: &mut [Slot]) -> Result<Committed, RunError> {
        if let [only] = slots
            && !self.stores_at_exit()
        {
            return self.commit_one(only).await;
        }
        let order = in_task_order(slots);
        let mut writes: Vec<Option<Writes<'_>>> = slots
            .iter_mut()
            .map(|slot| match &mut slot.end {
                Some(TaskEnd::Done(done)) => {
                    Some(Writes { node: slot.plan.node, updates: &mut done.updates })
                }
                _ => None,
            })
            .collect();
        let mut ordered: Vec<_> = order.filter_map(|it| writes[it].take()).collect();
        self.fold(&mut ordered, true)
    }

    /// Folds what the only task of a step wrote, and asks its routers on the state itself.
    async fn commit_one(&mut self, slot: &mut Slot) -> Result<Committed, RunError> {
        let mode = self.mode(true);
        let Some(TaskEnd::Done(mut done)) = slot.end.take() else {
            return Ok(Committed::default());
        };
        // Before the fold, which takes the updates apart.
        let writes = match !done.routed && self.is_watched() {
            true => match self.checked_writes(&done) {
                Ok(writes) => Some(writes),
                Err(error) => return Err(self.failed_late(slot, error).await),
            },
            false => None,
        };
        let writing = [Writes { node: slot.plan.node, updates: &mut done.updates }];
        let mut fold = commit::begin(&*self.state, &self.scope.graph, &writing, mode)?;
        for update in &mut done.updates {
            self.state.fold(update, &mut fold)?;
        }
        if !done.routed
            && let Err(error) = route(&slot.cx, &*self.state, &mut done)
        {
            return Err(self.routing_failed(slot, error.halt()).await);
        }
        let end = TaskEnd::Done(done);
        if let Some(writes) = writes {
            self.note(slot, &end, writes, None).await?;
        }
        slot.end = Some(end);
        let graph = &self.scope.graph;
        Ok(commit::end(graph, &mut *self.state, &mut self.live, fold, mode)?)
    }

    /// Goes where the tasks lead, in task order.
    fn advance(&mut self, slots: &[Slot]) {
        let graph = self.scope.graph.clone();
        let planned = || in_task_order(slots).map(|it| &slots[it].plan);
        let ways = in_task_order(slots).filter_map(|it| {
            let done = slots[it].done()?;
            Some(Ways { node: slots[it].plan.node, edges: !done.handled, hops: &done.hops })
        });
        self.frontier.advance(&graph, planned, ways);
    }

    /// The end of a step: the state is shown and stored, and nothing of the step is pending any more.
    async fn moved_on(&mut self, committed: Committed) -> Result<(), RunError> {
        let Committed { changed, mut affected, mut changes } = committed;
        let output = changed.intersects(&self.scope.graph.output);
        self.shown |= output;
        if self.scope.events.is_some() && !changed.is_empty() {
            self.show_values(&*self.state, output).await;
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
            self.late_records.clear();
        }
        if !self.carried.is_empty() {
            let step = std::mem::replace(&mut changes, std::mem::take(&mut self.carried));
            changes.extend(step);
        }
        affected.union_with(&std::mem::take(&mut self.unsaved));
        self.put_checkpoint(Source::Loop, changes, &affected).await
    }

    /// What holds for the first step of a run only: answers wait, and graphs inside tasks go on where they stood.
    fn end_first_step(&mut self) {
        if self.scope.parent.is_none() {
            self.scope.answers.end_first_step();
        }
        self.first_step = false;
        self.replaying = false;
        self.resuming = false;
    }

    fn stops_before(&self, slots: &[Slot]) -> bool {
        let stops = self.scope.settings.stop_before.as_ref();
        self.stops_at(stops.unwrap_or(&self.scope.graph.stop_before), slots)
    }

    fn stops_after(&self, slots: &[Slot]) -> bool {
        let stops = self.scope.settings.stop_after.as_ref();
        self.stops_at(stops.unwrap_or(&self.scope.graph.stop_after), slots)
    }

    fn stops_at(&self, stops: &Stops, slots: &[Slot]) -> bool {
        !matches!(stops, Stops::Nowhere)
            && self.frontier.version > self.frontier.seen
            && self.visible(slots).any(|it| stops.holds(&self.scope.graph.node(it.plan.node).label))
    }

    async fn stop_at(&self, stop: Stop) -> Ended {
        if self.scope.parent.is_none() && stop != Stop::Drained {
            self.show_interrupts(Vec::new()).await;
        }
        Ended::Stopped(stop)
    }

    pub(super) fn stores_at_exit(&self) -> bool {
        self.scope.writer.as_ref().is_some_and(|it| it.durability == Durability::Exit)
    }

    pub(super) fn stores_each_step(&self) -> bool {
        self.scope.writer.as_ref().is_some_and(|it| it.durability != Durability::Exit)
    }
}

/// Edges' tasks by name, then payloads as sent; a step holds them the other way round.
pub(super) fn in_task_order(slots: &[Slot]) -> impl Iterator<Item = usize> + use<> {
    let pushes = slots.partition_point(|it| matches!(it.plan.kind, TaskKind::Push(_)));
    (pushes..slots.len()).chain(0..pushes)
}
