//! One superstep: plan, execute, commit.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{
    Ended, Engine,
    commit::{self, Committed, Writes},
    events::EMPTY_UPDATE,
    execute::{Done, Job, Report, TaskEnd, end, failure, route, route_on_copy, run_task, within},
    load::{damaged, stored_hops, updates},
    persist::Durability,
    plan::{Planned, StartInput, Ways},
    team::Team,
};
use crate::{
    FieldWrite, RunError,
    cache::{CacheKey, Cached},
    checkpoint::{Event, GotoRecord, Source, TaskId, TaskRecord},
    context::{Failure, TaskContext, TaskKind},
    error::{Halt, Stop},
    graph::{NodeIdx, Stops},
    node::TaskInput,
    state::{FieldError, guard},
};

/// The tasks of a step: one, mostly.
type Slots = SmallVec<[Slot; 1]>;

/// A task of the step, with what is known of it.
pub(super) struct Slot {
    pub(super) plan: Planned,
    cx: Arc<TaskContext>,
    end: Option<TaskEnd>,
    /// The failure that an earlier run left to the handler.
    failed: Option<Box<Failure>>,
    cache_key: Option<Box<CacheKey>>,
}

impl Slot {
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
    ) -> Result<(Option<TaskEnd>, Option<Box<Failure>>), RunError> {
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
        let handled = self.records.tasks.get(&handler).and_then(|it| it.done.clone());
        match handled {
            Some(result) => Ok((Some(TaskEnd::Done(self.recorded(result, true)?)), None)),
            None => Ok((None, Some(Box::new(failure)))),
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

    fn replayed(
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
                self.show_update(&slot.cx, &writes, true, done.handled).await;
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

    fn input_json(&self, slot: &Slot) -> Option<serde_json::Value> {
        let body = self.scope.graph.node(slot.plan.node).body.as_ref()?;
        body.0.describe(&self.input(slot), &slot.cx)
    }

    /// Runs all tasks that are not done yet.
    async fn execute(&mut self, slots: &mut [Slot]) -> Result<(), RunError> {
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

    async fn execute_many(&mut self, slots: &mut [Slot]) -> Result<(), RunError> {
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
                } else if slot.end.is_none() {
                    team.start(next, self.job(slot, false));
                }
                next += 1;
            }
            match team.next().await {
                Some(Ok((index, report))) => {
                    failed |= matches!(report.end, TaskEnd::Failed(_));
                    self.finish(&mut slots[index], report).await?;
                }
                // Tasks catch their panics, so this is the runtime shutting down.
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
        let copies =
            self.scope.graph.routes(slot.plan.node) && !self.routes_in_place(slot.plan.node, alone);
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
        let Some(StartInput { update, gotos }) = self.frontier.input.take() else {
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
    async fn look_up(&mut self, slots: &mut [Slot]) -> Result<(), RunError> {
        let Some(cache) = self.scope.cache.clone() else { return Ok(()) };
        for slot in slots.iter_mut().filter(|it| it.end.is_none()) {
            if self.scope.graph.node(slot.plan.node).options.cache.is_none() {
                continue;
            }
            let Some(input) = self.input_json(slot) else { continue };
            let input = TaskId::of(&[input.to_string().as_bytes()]);
            let key = CacheKey { node: slot.cx.node().to_owned(), input };
            if let Some(Cached { writes, gotos }) = cache.get(&key).await {
                self.show_update(&slot.cx, &writes, true, false).await;
                let event = self.done_event(writes.clone(), gotos.clone());
                self.record(vec![slot.cx.record(event)]).await?;
                slot.end = Some(TaskEnd::Done(self.replayed((writes, gotos), false)?));
            }
            slot.cache_key = Some(Box::new(key));
        }
        Ok(())
    }

    pub(super) fn writes_of(&self, done: &Done) -> Result<Vec<FieldWrite>, RunError> {
        let mut writes = Vec::new();
        for update in &done.updates {
            writes.extend(self.state.writes(update)?);
        }
        Ok(writes)
    }

    /// What a task wrote, if it can be stored.
    fn checked_writes(&self, done: &Done) -> Result<Vec<FieldWrite>, RunError> {
        let writes = self.writes_of(done)?;
        if self.scope.writer.is_some() {
            for write in &writes {
                guard::check(&write.field, &write.value, self.scope.graph.max_stored_bytes)?;
            }
        }
        Ok(writes)
    }

    /// Notes how a task ended, unless its routers have still to be asked.
    async fn finish(&mut self, slot: &mut Slot, report: Report) -> Result<(), RunError> {
        let Report { mut end, handled } = report;
        if let TaskEnd::Done(done) = &mut end {
            done.routed |= !self.scope.graph.routes(slot.plan.node);
            if !done.routed {
                // The commit asks them, and then comes back to `note`.
                slot.end = Some(end);
                return Ok(());
            }
        }
        if self.is_watched() || slot.cache_key.is_some() {
            let written = match &end {
                TaskEnd::Done(done) => self.checked_writes(done),
                _ => Ok(Vec::new()),
            };
            let writes = written.unwrap_or_else(|error| {
                end = TaskEnd::Failed(Box::new(error));
                Vec::new()
            });
            self.note(slot, &end, writes, handled.as_deref()).await?;
        }
        slot.end = Some(end);
        Ok(())
    }

    /// Whether anybody wants to know what tasks do: a checkpointer, or a reader of the stream.
    fn is_watched(&self) -> bool {
        self.scope.writer.is_some() || self.scope.events.is_some()
    }

    /// Notes how a task ended: for the record, for the cache, and for who watches.
    async fn note(
        &mut self,
        slot: &Slot,
        end: &TaskEnd,
        writes: Vec<FieldWrite>,
        handled: Option<&(Failure, Arc<TaskContext>)>,
    ) -> Result<(), RunError> {
        let mut records = Vec::new();
        if let Some((failure, _)) = handled {
            let event = Event::Failed { error: failure.error.clone(), handled: true };
            records.push(slot.cx.record(event));
        }
        let task = handled.map_or(&slot.cx, |(_, handler)| handler);
        match end {
            TaskEnd::Done(done) => {
                let hops = done.hops.iter().map(|it| it.to_record(&self.scope.graph));
                let gotos = hops.collect::<Result<Vec<_>, _>>()?;
                // What a handler made of a failure is no result of the node.
                if let (None, Some(key), Some(cache)) =
                    (handled, &slot.cache_key, &self.scope.cache)
                {
                    let policy = self.scope.graph.node(slot.plan.node).options.cache;
                    let result = Cached { writes: writes.clone(), gotos: gotos.clone() };
                    cache.put((**key).clone(), result, policy.unwrap_or_default().ttl).await;
                }
                if slot.plan.node != self.scope.graph.start {
                    self.show_update(task, &writes, false, done.handled).await;
                    self.show_end(task, writes.clone(), None, Vec::new(), done.handled).await;
                }
                records.push(task.record(self.done_event(writes, gotos)));
            }
            TaskEnd::Failed(error) => {
                let error = task_error(error);
                if let Some(sink) = &self.scope.events
                    && !task.given_answers().is_empty()
                {
                    sink.task_event(task, EMPTY_UPDATE).await;
                }
                self.show_end(task, writes, Some(error.clone()), Vec::new(), handled.is_some())
                    .await;
                records.push(task.record(Event::Failed { error, handled: false }));
                records.extend(answered(task));
            }
            TaskEnd::Asked(interrupts) => {
                let asked = interrupts.clone();
                self.show_interrupts(asked.clone()).await;
                self.show_end(task, writes, None, asked.clone(), handled.is_some()).await;
                records.push(task.record(Event::Asked { interrupts: asked }));
                records.extend(answered(task));
            }
            TaskEnd::Parent(_) | TaskEnd::Stopped(_) => {}
        }
        self.record(records).await
    }

    /// The record of a finished task, without what is never stored.
    pub(super) fn done_event(&self, mut writes: Vec<FieldWrite>, gotos: Vec<GotoRecord>) -> Event {
        self.strip_untracked(&mut writes);
        Event::Done { writes, gotos }
    }

    pub(super) fn strip_untracked(&self, writes: &mut Vec<FieldWrite>) {
        let untracked = &self.scope.graph.untracked;
        if !untracked.is_empty() {
            let fields = self.state.fields();
            writes.retain(|it| !untracked.iter().any(|field| fields[field].name == it.field));
        }
    }

    /// Records what happened to tasks, now or when the run ends.
    pub(super) async fn record(&mut self, records: Vec<TaskRecord>) -> Result<(), RunError> {
        match &self.scope.writer {
            None => {}
            Some(writer) if writer.durability == Durability::Exit => {
                self.late_records.extend(records);
            }
            Some(_) if records.is_empty() => {}
            Some(writer) => writer.record(self.place(), records).await?,
        }
        Ok(())
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

    /// A router that fails fails its node: nothing of the task is recorded but the error.
    async fn routing_failed(&mut self, slot: &Slot, halt: Halt) -> RunError {
        let Halt::Failed { source, terminal } = halt else {
            return RunError::InvalidUpdate("a branch cannot ask questions".to_owned());
        };
        let error = failure(&slot.cx, source, terminal);
        self.failed_late(slot, error).await
    }

    /// Notes the failure of a task that its body had already left.
    async fn failed_late(&mut self, slot: &Slot, error: RunError) -> RunError {
        if self.is_watched() {
            let end = TaskEnd::Failed(Box::new(error.clone()));
            if let Err(error) = self.note(slot, &end, Vec::new(), None).await {
                return error;
            }
        }
        error
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
        self.late_records.clear();
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

    fn stores_at_exit(&self) -> bool {
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

fn answered(task: &TaskContext) -> Option<TaskRecord> {
    let answers = task.given_answers();
    (!answers.is_empty()).then(|| task.record(Event::Answered { answers }))
}

/// A task's error as it is recorded: the node's own words, without where and when.
fn task_error(error: &RunError) -> String {
    match error {
        RunError::Node { error, .. } => error.to_string(),
        error => error.to_string(),
    }
}
