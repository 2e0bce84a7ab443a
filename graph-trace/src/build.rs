//! Builds a trace from the events of a run.
//!
//! Events arrive in the order in which things happen, which differs from run to run. The trace depends only on the
//! order of events within one task and on the order in which a step starts its tasks. Both are deterministic.
//!
//! A graph that is resumed (after a crash, an interrupt or a failed attempt of the enclosing task) starts its
//! current step again. The builder then discards all later steps, because they are executed again. It keeps the
//! known results of the tasks in the current step, because a task whose result was stored is not executed again and
//! only reports its writes.

mod task;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use graph_core::{
    Event, EventKind,
    checkpoint::{Source, TaskId},
};
use serde_json::Value;

use self::task::TaskBuilder;
use crate::trace::{GraphTrace, Header, RunStatus, StepTrace, Trace};

/// Builds a trace from the events of one or more runs of a thread.
///
/// A run that resumes after a crash or an interrupt repeats the current step, and the events of the repetition
/// replace the earlier events of that step. The trace of a thread that crashed is therefore identical to the trace
/// of a thread that did not.
///
/// Add all events in order: events of all kinds, including those of subgraphs. [`enable_events`](Self::enable_events)
/// sets the run options accordingly. If the event stream is dropped, undelivered events are lost, and a task that has
/// already finished is not executed again to repeat them. To end a run in such a way that its remaining events can
/// still be read, use [`RunControl::cancel`](graph_core::RunControl::cancel).
#[derive(Clone, Debug, Default)]
pub struct TraceBuilder {
    root: GraphBuilder,
    /// The path from the root to each task.
    paths: HashMap<TaskId, Vec<PathSegment>>,
    start: Option<Instant>,
    run: Option<Arc<str>>,
    inputs: Vec<RunInput>,
    generations: GenerationCounter,
}

/// A task on the path from the root to a nested graph.
#[derive(Clone, Debug)]
struct PathSegment {
    /// Namespace of the graph to which the task belongs.
    namespace: Arc<str>,
    step: i64,
    task: TaskId,
}

/// The input of a run.
#[derive(Clone, Debug)]
struct RunInput {
    input: Value,
    /// The ids of the interrupts that were pending when the run began.
    pending: BTreeSet<String>,
    /// The first step that the run executed.
    first_step: Option<i64>,
}

/// Counter for generations. A generation is one execution of the root or of a task. The root starts a new
/// generation with each run, and a task starts one each time it is started or retried.
#[derive(Clone, Copy, Debug, Default)]
struct GenerationCounter(u64);

impl GenerationCounter {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// Builds the trace of one execution of a graph.
#[derive(Clone, Debug, Default)]
struct GraphBuilder {
    steps: Vec<StepBuilder>,
    /// Generation in which the graph was last seen. It is a generation of the enclosing task or, for the root, of the
    /// run.
    generation: u64,
    /// Whether the graph has not started a task in this generation yet.
    is_resuming: bool,
    /// Whether the graph belongs to a task that has been started before.
    is_restarted: bool,
    /// Whether the graph has reported a checkpoint in this generation.
    saw_checkpoint: bool,
    /// The step whose state was reported in this generation before any checkpoint.
    early_state_step: Option<i64>,
}

#[derive(Clone, Debug, Default)]
struct StepBuilder {
    number: i64,
    tasks: Vec<TaskBuilder>,
    index: HashMap<TaskId, usize>,
    /// Tasks from earlier executions of this step that have not been started again.
    previous: HashMap<TaskId, TaskBuilder>,
    state: Option<Value>,
}

impl TraceBuilder {
    /// Creates an empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a run with this input. To convert an input, use
    /// [`CompiledGraph::input_to_json`](graph_core::CompiledGraph::input_to_json).
    ///
    /// If the same answer has to be given again after a crash, it is counted only once.
    pub fn begin_run(&mut self, input: Value) {
        self.run = None;
        let pending = self.root.pending_interrupts();
        if input.is_null() && !self.inputs.is_empty() {
            return;
        }
        if self.inputs.last().is_some_and(|it| !pending.is_empty() && it.pending == pending) {
            self.inputs.pop();
        }
        self.inputs.push(RunInput { input, pending, first_step: None });
    }

    /// Adds an event to the trace.
    pub fn add_event(&mut self, event: &Event) {
        let start = *self.start.get_or_insert(event.at);
        let elapsed = event.at.saturating_duration_since(start);
        if self.run.as_ref() != Some(&event.run) {
            self.run = Some(event.run.clone());
            self.root.set_generation(self.generations.next());
        }
        let id = event.handled_task.or(event.task);
        if let (EventKind::TaskStarted { input, sent }, Some(id)) = (&event.kind, id) {
            let generation = self.generations.next();
            let node = event.node.as_deref().unwrap_or_default();
            let task = TaskBuilder::new(id, node, (input.clone(), *sent), generation, elapsed);
            let Some(graph) = self.graph_mut(event) else { return };
            let was_started = graph.start_task(event.step, task);
            if event.parent_task.is_none() {
                self.set_first_step(event.step, was_started);
            }
            let path = self.path(event);
            self.paths.insert(id, path);
            return;
        }
        let generation = match event.kind {
            EventKind::Retried { .. } => Some(self.generations.next()),
            _ => None,
        };
        let Some(graph) = self.graph_mut(event) else { return };
        match (&event.kind, id) {
            (EventKind::Values(values), _) => graph.set_state(event.step, values.to_json()),
            (EventKind::Checkpoint { source, .. }, _) => graph.on_checkpoint(event.step, *source),
            (kind, Some(id)) => {
                let task = graph.find_step(event.step).and_then(|it| it.task_mut(id));
                if let Some(task) = task {
                    task.add_event(kind, event.handled_task.is_some(), elapsed);
                    task.generation = generation.unwrap_or(task.generation);
                }
            }
            (_, None) => {}
        }
    }

    /// Returns the trace of all added events. Inputs that were passed to [`begin_run`](Self::begin_run) take
    /// precedence over the input in the header.
    pub fn finish(self, mut header: Header, end: RunStatus) -> Trace {
        let mut inputs = self.inputs.into_iter().map(|it| it.input);
        if let Some(first) = inputs.next() {
            header.input = first;
            header.later_inputs = inputs.collect();
        }
        Trace { header, root: self.root.finish(), end }
    }

    /// Sets the first step of the current run. Discards the input of each earlier run that began at this step or
    /// later, because that input was lost in a crash.
    ///
    /// If the run starts with a task that has been started before, all inputs are kept, because the run processes
    /// the answer to an interrupt.
    fn set_first_step(&mut self, step: i64, was_started: bool) {
        let Some((last, before)) = self.inputs.split_last_mut() else { return };
        if last.first_step.is_some() {
            return;
        }
        last.first_step = Some(step);
        if last.pending.is_empty() || !was_started {
            let kept =
                before.iter().take_while(|it| it.first_step.is_some_and(|it| it < step)).count();
            self.inputs.drain(kept..self.inputs.len() - 1);
        }
    }

    /// Returns the path to the task that `event` starts. It is the path of the task that encloses the graph,
    /// followed by the started task.
    fn path(&self, event: &Event) -> Vec<PathSegment> {
        let outer = event.parent_task.and_then(|it| self.paths.get(&it));
        let mut path = outer.cloned().unwrap_or_default();
        let namespace = event.namespace.clone();
        path.extend(event.task.map(|task| PathSegment { namespace, step: event.step, task }));
        path
    }

    /// Returns the builder of the graph to which an event belongs.
    fn graph_mut(&mut self, event: &Event) -> Option<&mut GraphBuilder> {
        let Some(outer) = event.parent_task else { return Some(&mut self.root) };
        let path = self.paths.get(&outer)?;
        let mut graph = &mut self.root;
        for (nth, segment) in path.iter().enumerate() {
            let task = graph.find_step(segment.step)?.task_mut(segment.task)?;
            let inside = path.get(nth + 1).map_or(&event.namespace, |it| &it.namespace);
            graph = task.graph_mut(inside);
        }
        Some(graph)
    }
}

impl GraphBuilder {
    /// Sets the generation of the enclosing task or run. If it is new, the graph is being resumed or started again.
    fn set_generation(&mut self, generation: u64) {
        if self.generation != generation {
            (self.generation, self.is_resuming) = (generation, true);
            (self.saw_checkpoint, self.early_state_step) = (false, None);
        }
    }

    fn find_step(&mut self, number: i64) -> Option<&mut StepBuilder> {
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

    fn set_state(&mut self, number: i64, state: Value) {
        if !self.saw_checkpoint {
            self.early_state_step = Some(number);
        }
        self.step_mut(number).state = Some(state);
    }

    /// Handles a checkpoint. A state that was reported before the first checkpoint is the state with which the
    /// graph resumes, and not the result of its next step.
    fn on_checkpoint(&mut self, number: i64, source: Source) {
        let shown = self.early_state_step.take().filter(|it| *it == number + 1);
        let next = if std::mem::replace(&mut self.saw_checkpoint, true) { None } else { shown };
        let next = next.and_then(|it| self.find_step(it));
        let Some(state) = next.and_then(|it| it.state.take()) else { return };
        // A nested graph continues even if its events are not read, so the event that reported this state may have
        // been lost in an earlier run. The state of the root also changes when a command is applied between steps,
        // which does not count as a step.
        let mut before = self.steps.iter().rev().filter(|it| it.number <= number);
        let before = before.find_map(|it| it.state.as_ref());
        if self.is_restarted && source == Source::Loop && before != Some(&state) {
            self.step_mut(number).state = Some(state);
        }
    }

    /// Starts a task. Returns whether the task has been started before.
    fn start_task(&mut self, number: i64, task: TaskBuilder) -> bool {
        let is_repeated = std::mem::take(&mut self.is_resuming);
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
    fn pending_interrupts(&self) -> BTreeSet<String> {
        let tasks = self.steps.last().map(|it| it.tasks.iter().chain(it.previous.values()));
        tasks.into_iter().flatten().flat_map(TaskBuilder::pending_interrupts).collect()
    }

    fn finish(self) -> GraphTrace {
        let steps = self.steps.into_iter().map(StepBuilder::finish);
        GraphTrace {
            steps: steps.filter(|it| !it.tasks.is_empty() || it.state.is_some()).collect(),
        }
    }
}

impl StepBuilder {
    fn task_mut(&mut self, id: TaskId) -> Option<&mut TaskBuilder> {
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
        // Tasks that are triggered by edges come before tasks with sent payloads. The engine starts them in the
        // opposite order.
        self.tasks.sort_by_key(|it| it.sent);
        let tasks = self.tasks.into_iter().map(TaskBuilder::finish).collect();
        StepTrace { step: self.number, tasks, state: self.state }
    }
}

/// Time since the first event.
type Elapsed = Duration;
