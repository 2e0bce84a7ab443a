//! Builds the traces of graphs, steps and tasks. A graph contains steps, a step contains tasks, and a task can run
//! graphs.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use graph_core::{
    EventKind, FieldWrite, Interrupt,
    checkpoint::{GotoRecord, Source, TaskId},
};
use serde_json::Value;

use super::activity::Activity;
use crate::trace::{GraphTrace, SendTrace, StepTrace, TaskTrace, Timing};

/// Builds the trace of one execution of a graph.
#[derive(Clone, Debug, Default)]
pub(super) struct GraphBuilder {
    steps: Vec<StepBuilder>,
    /// Generation in which the graph was last seen. It is a generation of the enclosing task or, for the root, of the
    /// run.
    generation: u64,
    /// Whether the graph has not started a task in this generation yet.
    is_resuming: bool,
    /// Whether the graph belongs to a task that has been started before.
    is_restarted: bool,
    /// Step number of the last checkpoint that the graph has reported in this generation.
    last_checkpoint: Option<i64>,
    /// The step whose state was reported in this generation before any checkpoint.
    early_state_step: Option<i64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct StepBuilder {
    number: i64,
    tasks: Vec<TaskBuilder>,
    index: HashMap<TaskId, usize>,
    /// Tasks from earlier executions of this step that have not been started again.
    previous: HashMap<TaskId, TaskBuilder>,
    state: Option<Value>,
}

/// Builds the trace of one task.
#[derive(Clone, Debug)]
pub(super) struct TaskBuilder {
    id: TaskId,
    /// Number of the task's current execution. It changes each time the task is started or retried; see
    /// [`GraphBuilder::set_generation`].
    pub(super) generation: u64,
    node: String,
    input: Value,
    /// Whether the task's input is a payload that was sent to it.
    sent: bool,
    timing: Timing,
    body: Activity,
    handler: Activity,
    error: Option<String>,
    handled: bool,
    cached: bool,
    /// All interrupts of the task, whether pending or answered.
    interrupts: Vec<TaskInterrupt>,
    writes: Vec<FieldWrite>,
    gotos: Vec<GotoRecord>,
    /// The graphs that the task ran, with their namespaces.
    graphs: Vec<(String, GraphBuilder)>,
    /// Whether the task has been started before.
    is_restarted: bool,
    /// Whether there have been events in this generation other than the start event.
    has_events: bool,
    /// Whether the body has finished in this generation.
    body_finished: bool,
    /// The same task in an earlier run. Kept until it is known whether the task is executed again.
    previous: Option<Box<Self>>,
}

#[derive(Clone, Debug)]
struct TaskInterrupt {
    id: String,
    value: Value,
    is_pending: bool,
}

impl GraphBuilder {
    /// Sets the generation to which the next events of this graph belong. If it differs from the previous one, the
    /// enclosing task or run has been started again, so this graph is being resumed or restarted.
    pub(super) fn set_generation(&mut self, generation: u64) {
        if self.generation != generation {
            (self.generation, self.is_resuming) = (generation, true);
            (self.last_checkpoint, self.early_state_step) = (None, None);
        }
    }

    pub(super) fn find_step(&mut self, number: i64) -> Option<&mut StepBuilder> {
        let at = self.steps.binary_search_by_key(&number, |it| it.number).ok()?;
        self.steps.get_mut(at)
    }

    fn step_mut(&mut self, number: i64) -> &mut StepBuilder {
        let at = match self.steps.binary_search_by_key(&number, |it| it.number) {
            Ok(at) => at,
            Err(at) => {
                self.steps.insert(at, StepBuilder { number, ..StepBuilder::default() });
                at
            }
        };
        &mut self.steps[at]
    }

    pub(super) fn set_state(&mut self, number: i64, state: Value) {
        if self.last_checkpoint.is_none() {
            self.early_state_step = Some(number);
        }
        self.step_mut(number).state = Some(state);
    }

    /// Handles a checkpoint. A graph that resumes from a checkpoint reports its state before that checkpoint, and the
    /// state is first recorded as the result of the next step. This method removes it there.
    pub(super) fn on_checkpoint(&mut self, number: i64, source: Source) {
        let has_early_state = self.early_state_step.take() == Some(number + 1);
        let has_next_state = self.find_step(number + 1).is_some_and(|it| it.state.is_some());
        let last = self.last_checkpoint.replace(number);
        let resumes = match last {
            None => has_early_state,
            // If the process of a subgraph dies, the subgraph resumes in a new process, without a start event of the
            // enclosing task. Until the subgraph starts a task, its later steps may belong to an earlier generation.
            Some(last) => !self.is_resuming && (last >= number || has_next_state),
        };
        if !resumes {
            return;
        }
        let in_new_process = last.is_some();
        self.is_resuming |= in_new_process;
        let next = self.find_step(number + 1);
        let Some(state) = next.and_then(|it| it.state.take()) else { return };
        // Record the removed state as the result of step `number` if the event that reported this result was lost. That
        // happens if an earlier run of a nested graph continued after its events were no longer read. The state of the
        // root also changes when a command is applied between steps; such a state is not the result of a step.
        let mut before = self.steps.iter().rev().filter(|it| it.number <= number);
        let before = before.find_map(|it| it.state.as_ref());
        let is_restarted = self.is_restarted || in_new_process;
        if is_restarted && source == Source::Loop && before != Some(&state) {
            self.step_mut(number).state = Some(state);
        }
    }

    /// Starts a task. Returns whether the task has been started before.
    pub(super) fn start_task(&mut self, number: i64, task: TaskBuilder) -> bool {
        // Without checkpoints, the tasks of a graph that starts again in a new process have the same ids as before.
        let is_started = self.find_step(number).is_some_and(|it| it.index.contains_key(&task.id));
        let is_repeated = std::mem::take(&mut self.is_resuming) || is_started;
        if is_repeated {
            self.steps.retain(|it| it.number <= number);
        }
        let step = self.step_mut(number);
        if is_repeated {
            step.reopen();
        }
        step.start_task(task)
    }

    /// Returns the ids of the pending interrupts in the last step.
    pub(super) fn pending_interrupts(&self) -> BTreeSet<String> {
        let tasks = self.steps.last().map(|it| it.tasks.iter().chain(it.previous.values()));
        tasks.into_iter().flatten().flat_map(TaskBuilder::pending_interrupts).collect()
    }

    pub(super) fn finish(self) -> GraphTrace {
        let steps = self.steps.into_iter().map(StepBuilder::finish);
        GraphTrace {
            steps: steps.filter(|it| !it.tasks.is_empty() || it.state.is_some()).collect(),
        }
    }
}

impl StepBuilder {
    pub(super) fn task_mut(&mut self, id: TaskId) -> Option<&mut TaskBuilder> {
        self.tasks.get_mut(*self.index.get(&id)?)
    }

    /// Starts the step again, but keeps the known results of its tasks.
    fn reopen(&mut self) {
        self.state = None;
        self.index.clear();
        // `previous` may still contain tasks from a run that ended before it had started all tasks of the step.
        self.previous.extend(self.tasks.drain(..).map(|it| (it.id, it)));
    }

    fn start_task(&mut self, mut task: TaskBuilder) -> bool {
        let previous = self.previous.remove(&task.id);
        let was_started = previous.is_some();
        if let Some(previous) = previous {
            task.continue_from(previous);
        }
        self.index.insert(task.id, self.tasks.len());
        self.tasks.push(task);
        was_started
    }

    fn finish(mut self) -> StepTrace {
        // In task order, tasks triggered by edges come before tasks with payloads. The engine starts them in the
        // opposite order.
        self.tasks.sort_by_key(|it| it.sent);
        let tasks = self.tasks.into_iter().map(TaskBuilder::finish).collect();
        StepTrace { step: self.number, tasks, state: self.state }
    }
}

impl TaskBuilder {
    pub(super) fn new(
        id: TaskId,
        node: &str,
        (input, sent): (Value, bool),
        generation: u64,
        at: Duration,
    ) -> Self {
        Self {
            id,
            generation,
            node: node.to_owned(),
            input,
            sent,
            timing: Timing { start: at, end: at },
            body: Activity::default(),
            handler: Activity::default(),
            error: None,
            handled: false,
            cached: false,
            interrupts: Vec::new(),
            writes: Vec::new(),
            gotos: Vec::new(),
            graphs: Vec::new(),
            is_restarted: false,
            has_events: false,
            body_finished: false,
            previous: None,
        }
    }

    /// Continues a task that has been started before. Its interrupts are kept, and its graphs are resumed.
    fn continue_from(&mut self, mut previous: Self) {
        self.is_restarted = true;
        self.interrupts = previous.interrupts.clone();
        self.graphs = std::mem::take(&mut previous.graphs);
        self.previous = match (previous.has_events, previous.previous.take()) {
            // `previous` was started but had no further events, so the result of the execution before it is more
            // complete.
            (false, Some(before)) => Some(before),
            _ => Some(Box::new(previous)),
        };
    }

    /// Returns the builder of a graph that the task runs.
    pub(super) fn graph_mut(&mut self, namespace: &str) -> &mut GraphBuilder {
        let at = match self.graphs.iter().position(|it| it.0 == namespace) {
            Some(at) => at,
            None => {
                self.graphs.push((namespace.to_owned(), GraphBuilder::default()));
                self.graphs.len() - 1
            }
        };
        let graph = &mut self.graphs[at].1;
        graph.is_restarted = self.is_restarted;
        graph.set_generation(self.generation);
        graph
    }

    fn pending_interrupts(&self) -> impl Iterator<Item = String> {
        self.interrupts.iter().filter(|it| it.is_pending).map(|it| it.id.clone())
    }

    pub(super) fn add_event(&mut self, kind: &EventKind, by_handler: bool, elapsed: Duration) {
        self.restore_previous(kind, by_handler);
        self.timing.end = elapsed;
        let activity = if by_handler { &mut self.handler } else { &mut self.body };
        match kind {
            EventKind::Custom(value) => activity.custom.push(value.clone()),
            EventKind::Message(value) => activity.message(value),
            EventKind::Retried { attempt, error, .. } => activity.retry(*attempt, error),
            EventKind::Effect { key, result, .. } => activity.effect(key, result),
            EventKind::Update { writes, gotos, cached: true, handler } => {
                self.handled |= handler;
                self.resolve_interrupts();
                (self.writes, self.gotos) = (writes.clone(), gotos.clone());
            }
            EventKind::TaskFinished { writes, error, interrupts, gotos, handler } => {
                self.handled |= handler;
                self.body_finished |= !by_handler;
                if !handler || error.is_some() {
                    self.error.clone_from(error);
                }
                self.resolve_interrupts();
                interrupts.iter().for_each(|it| self.add_interrupt(it));
                (self.writes, self.gotos) = (writes.clone(), gotos.clone());
            }
            _ => {}
        }
    }

    /// Handles the first event of a task. If an earlier run already executed the task, the kind of this event
    /// determines how much of the earlier result is kept.
    fn restore_previous(&mut self, kind: &EventKind, by_handler: bool) {
        let is_first = !std::mem::replace(&mut self.has_events, true);
        let is_cached = matches!(kind, EventKind::Update { cached: true, .. });
        let previous = if is_first { self.previous.take() } else { None };
        match previous {
            // The task is not executed again, so all its actions happened in the earlier run.
            Some(previous) if is_cached => {
                (self.body, self.handler) = (previous.body, previous.handler);
                (self.error, self.timing, self.cached) =
                    (previous.error, previous.timing, previous.cached);
            }
            // Only the handler is executed again.
            Some(previous) if by_handler => {
                (self.body, self.error, self.timing.start) =
                    (previous.body, previous.error, previous.timing.start);
            }
            _ => self.cached |= is_cached,
        }
    }

    fn resolve_interrupts(&mut self) {
        self.interrupts.iter_mut().for_each(|it| it.is_pending = false);
    }

    /// Adds an interrupt, or marks it as pending again.
    fn add_interrupt(&mut self, interrupt: &Interrupt) {
        let Interrupt { id, value, .. } = interrupt;
        match self.interrupts.iter_mut().find(|it| it.id == *id) {
            Some(existing) => (existing.value, existing.is_pending) = (value.clone(), true),
            None => self.interrupts.push(TaskInterrupt {
                id: id.clone(),
                value: value.clone(),
                is_pending: true,
            }),
        }
    }

    fn finish(mut self) -> TaskTrace {
        // The task was started again but had no further events, so the earlier result still applies.
        if let (false, Some(previous)) = (self.has_events, self.previous.take()) {
            return Self { graphs: self.graphs, previous: None, has_events: true, ..*previous }
                .finish();
        }
        if self.body_finished {
            // Drop graphs of earlier attempts or runs that the last attempt did not run.
            self.graphs.retain(|it| it.1.generation == self.generation);
        }
        // Graphs that a node runs concurrently arrive in an arbitrary order. They are sorted by the number in their
        // namespace; comparing lengths first puts 10 after 9. Graphs of the error handler come last.
        let own_namespace = format!("{}:{}", self.node, self.id);
        self.graphs.sort_by_cached_key(|(namespace, _)| {
            let by_handler = namespace.contains(':') && !namespace.contains(&own_namespace);
            (by_handler, namespace.len(), namespace.clone())
        });
        let (body, handler) = (self.body.sorted(), self.handler.sorted());
        let (mut routes, mut sends) = (Vec::new(), Vec::new());
        for GotoRecord { to, payload } in self.gotos {
            match payload {
                Some(payload) => sends.push(SendTrace { to, payload }),
                None => routes.push(to),
            }
        }
        TaskTrace {
            node: self.node,
            input: self.input,
            retries: body.retries,
            effects: concat(body.effects, handler.effects),
            custom: concat(body.custom, handler.custom),
            messages: concat(body.messages, handler.messages),
            graphs: self.graphs.into_iter().map(|it| it.1.finish()).collect(),
            error: self.error,
            handled: self.handled,
            cached: self.cached,
            interrupts: self.interrupts.into_iter().map(|it| it.value).collect(),
            writes: self.writes,
            routes,
            sends,
            timing: Some(self.timing),
        }
    }
}

fn concat<T>(mut first: Vec<T>, second: Vec<T>) -> Vec<T> {
    first.extend(second);
    first
}
