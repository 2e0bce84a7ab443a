//! Builds a trace from the events of a run.
//!
//! Events arrive in the order in which things happen, which differs from run to run. The trace depends only on the
//! order of events within one task and on the order in which a step starts its tasks. Both are deterministic.
//!
//! A resumed graph executes its current step again. A graph is resumed after a crash, an interrupt or a failed attempt
//! of the enclosing task, and a subgraph also after its process died and was replaced. The builder then discards all
//! later steps, because they are executed again. It keeps the known results of the tasks in the current step, because a
//! task whose result was stored is not executed again and only reports its writes.

mod activity;
mod graph;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
};

use graph_core::{Event, EventKind, checkpoint::TaskId};
use serde_json::Value;

use self::graph::{GraphBuilder, TaskBuilder};
use crate::trace::{Header, RunStatus, Trace};

/// Builds a trace from the events of one or more runs of a thread.
///
/// A run that resumes after a crash or an interrupt repeats the current step, and the events of the repetition
/// replace the earlier events of that step. The trace of a thread that crashed is therefore identical to the trace
/// of a thread that did not.
///
/// Add all events in order: events of all kinds, including those of subgraphs. [`enable_events`](Self::enable_events)
/// sets the run options accordingly. If the event stream is dropped, undelivered events are lost, and a task that has
/// already finished is not executed again to repeat them. To end a run without losing its remaining events, use
/// [`RunControl::cancel`](graph_core::RunControl::cancel).
///
/// ```
/// use graph_core::{Input, RunOptions, START, State, StateGraph};
/// use graph_trace::{Header, RunStatus, TraceBuilder};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Essay {
///     topic: String,
///     text: String,
/// }
///
/// async fn write(essay: &Essay) -> EssayUpdate {
///     Essay::update().text(format!("On {}", essay.topic))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
/// let input = Input::from(Essay { topic: "tea".into(), ..Essay::default() });
/// let mut builder = TraceBuilder::new();
/// builder.begin_run(graph.input_to_json(&input)?);
/// let options = TraceBuilder::enable_events(RunOptions::new());
/// let mut events = graph.with(options).stream(input, ());
/// while let Some(event) = events.next().await {
///     // Show the event to a user here.
///     builder.add_event(&event);
/// }
/// let end = RunStatus::from_result(&events.finish().await);
/// let trace = builder.finish(Header::default(), end);
/// assert_eq!(trace.root.steps[1].tasks[0].node, "write");
/// # Ok(()) }
/// ```
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

impl TraceBuilder {
    /// Creates an empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a run with this input. To convert an input, use
    /// [`CompiledGraph::input_to_json`](graph_core::CompiledGraph::input_to_json).
    ///
    /// An answer that is given again after a crash is recorded only once.
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
