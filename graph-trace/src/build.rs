//! From events to a trace.
//!
//! Events come in the order in which things happened, which is another one each time. What is put together here
//! depends only on the order within one task and on the order in which a step's tasks are announced, and these are
//! always the same.
//!
//! A graph that goes on (after a crash, a question, a failed attempt of the task around it) announces the step where it
//! stood once more. All that is known of later steps is forgotten then, for it is done again; what is known of the
//! step's tasks is kept aside, since a task whose result was stored is not run again and tells nothing but its writes.

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

use self::task::Task;
use crate::trace::{End, GraphTrace, Header, StepTrace, Trace};

/// Puts a trace together from events, which may be those of several runs of one thread.
///
/// A run that goes on after a crash or a question does the open step once more; what it does there replaces what was
/// known of it. So the trace of a thread that crashed is that of one which never did.
///
/// Events are to be taken in as they come, of all kinds and of subgraphs too: [`watch`](Self::watch) says so to a
/// run's options. A stream that is dropped loses the events that were on their way, and a task that was done by then
/// is not run again to tell of it; [`Control::cancel`](graph_core::Control::cancel) ends a run so that they can be
/// read.
#[derive(Clone, Debug, Default)]
pub struct TraceBuilder {
    root: Visit,
    /// Where each task stands: the way to it from the root.
    places: HashMap<TaskId, Vec<Hop>>,
    start: Option<Instant>,
    run: Option<Arc<str>>,
    inputs: Vec<Given>,
    lives: Lives,
}

/// One task on the way from the root to a graph inside.
#[derive(Clone, Debug)]
struct Hop {
    /// The graph that the task belongs to.
    namespace: Arc<str>,
    step: i64,
    task: TaskId,
}

/// What a run was given.
#[derive(Clone, Debug)]
struct Given {
    input: Value,
    /// The questions that waited then, by id.
    open: BTreeSet<String>,
    /// The first step it announced.
    first: Option<i64>,
}

/// Counts lives: of the root, one a run; of a task, one each time it is announced and each time it is tried.
#[derive(Clone, Copy, Debug, Default)]
struct Lives(u64);

impl Lives {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// One visit of a graph.
#[derive(Clone, Debug, Default)]
struct Visit {
    steps: Vec<Step>,
    /// The life of the task around it, or of the run, in which it was seen last.
    life: u64,
    /// Whether it has announced nothing yet in this life.
    goes_on: bool,
    /// Whether it is a graph inside a task that was announced before.
    followed: bool,
    /// Whether it has told of a checkpoint in this life.
    has_set_out: bool,
    /// The step whose state it has shown in this life before it told of a checkpoint.
    shown_first: Option<i64>,
}

#[derive(Clone, Debug, Default)]
struct Step {
    number: i64,
    tasks: Vec<Task>,
    index: HashMap<TaskId, usize>,
    /// What was known of its tasks when it was announced once more.
    earlier: HashMap<TaskId, Task>,
    state: Option<Value>,
}

impl TraceBuilder {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// A run begins, and is given this: see [`CompiledGraph::describe`](graph_core::CompiledGraph::describe).
    ///
    /// An answer that has to be given again after a crash counts once.
    pub fn begin(&mut self, input: Value) {
        self.run = None;
        let open = self.root.open_questions();
        if input.is_null() && !self.inputs.is_empty() {
            return;
        }
        if self.inputs.last().is_some_and(|it| !open.is_empty() && it.open == open) {
            self.inputs.pop();
        }
        self.inputs.push(Given { input, open, first: None });
    }

    /// Takes an event in.
    pub fn note(&mut self, event: &Event) {
        let start = *self.start.get_or_insert(event.at);
        let since = event.at.saturating_duration_since(start);
        if self.run.as_ref() != Some(&event.run) {
            self.run = Some(event.run.clone());
            self.root.renew(self.lives.next());
        }
        let id = event.handles.or(event.task);
        if let (EventKind::TaskStarted { input, sent }, Some(id)) = (&event.kind, id) {
            let life = self.lives.next();
            let node = event.node.as_deref().unwrap_or_default();
            let task = Task::new(id, node, (input.clone(), *sent), life, since);
            let Some(visit) = self.visit(event) else { return };
            let again = visit.announce(event.step, task);
            if event.outer.is_none() {
                self.note_first(event.step, again);
            }
            let way = self.way(event);
            self.places.insert(id, way);
            return;
        }
        let life = match event.kind {
            EventKind::Retried { .. } => Some(self.lives.next()),
            _ => None,
        };
        let Some(visit) = self.visit(event) else { return };
        match (&event.kind, id) {
            (EventKind::Values(values), _) => visit.show(event.step, values.to_json()),
            (EventKind::Checkpoint { source, .. }, _) => visit.set_out(event.step, *source),
            (kind, Some(id)) => {
                let task = visit.find_step(event.step).and_then(|it| it.task_mut(id));
                if let Some(task) = task {
                    task.note(kind, event.handles.is_some(), since);
                    task.life = life.unwrap_or(task.life);
                }
            }
            (_, None) => {}
        }
    }

    /// The trace of all that was taken in. Its input is the header's, unless [`begin`](Self::begin) told of others.
    pub fn finish(self, mut header: Header, end: End) -> Trace {
        let mut inputs = self.inputs.into_iter().map(|it| it.input);
        if let Some(first) = inputs.next() {
            header.input = first;
            header.then = inputs.collect();
        }
        Trace { header, root: self.root.finish(), end }
    }

    /// A run that begins where an earlier one began takes its place: what that one was given had been lost.
    ///
    /// It does not if it begins with a task that was announced before, for that is what an answer does.
    fn note_first(&mut self, step: i64, again: bool) {
        let Some((last, before)) = self.inputs.split_last_mut() else { return };
        if last.first.is_some() {
            return;
        }
        last.first = Some(step);
        if last.open.is_empty() || !again {
            let kept = before.iter().take_while(|it| it.first.is_some_and(|it| it < step)).count();
            self.inputs.drain(kept..self.inputs.len() - 1);
        }
    }

    /// The way to a task that is announced: that of the task around its graph, and itself.
    fn way(&self, event: &Event) -> Vec<Hop> {
        let outer = event.outer.and_then(|it| self.places.get(&it));
        let mut way = outer.cloned().unwrap_or_default();
        let namespace = event.namespace.clone();
        way.extend(event.task.map(|task| Hop { namespace, step: event.step, task }));
        way
    }

    /// The visit of a graph that an event belongs to.
    fn visit(&mut self, event: &Event) -> Option<&mut Visit> {
        let Some(outer) = event.outer else { return Some(&mut self.root) };
        let way = self.places.get(&outer)?;
        let mut visit = &mut self.root;
        for (nth, hop) in way.iter().enumerate() {
            let task = visit.find_step(hop.step)?.task_mut(hop.task)?;
            let inside = way.get(nth + 1).map_or(&event.namespace, |it| &it.namespace);
            visit = task.visit(inside);
        }
        Some(visit)
    }
}

impl Visit {
    /// Another life of what is around it: it goes on where it stood, or starts over.
    fn renew(&mut self, life: u64) {
        if self.life != life {
            (self.life, self.goes_on) = (life, true);
            (self.has_set_out, self.shown_first) = (false, None);
        }
    }

    fn find_step(&mut self, number: i64) -> Option<&mut Step> {
        let at = self.steps.binary_search_by_key(&number, |it| it.number).ok()?;
        self.steps.get_mut(at)
    }

    fn step_mut(&mut self, number: i64) -> &mut Step {
        let at = match self.steps.binary_search_by_key(&number, |it| it.number) {
            Ok(at) => at,
            Err(at) => {
                self.steps.insert(at, Step { number, ..Step::default() });
                at
            }
        };
        &mut self.steps[at]
    }

    fn show(&mut self, number: i64, state: Value) {
        if !self.has_set_out {
            self.shown_first = Some(number);
        }
        self.step_mut(number).state = Some(state);
    }

    /// It sets out from a checkpoint: a state that was shown before that is the one it goes on with, not one that its
    /// next step came to.
    fn set_out(&mut self, number: i64, source: Source) {
        let shown = self.shown_first.take().filter(|it| *it == number + 1);
        let next = if std::mem::replace(&mut self.has_set_out, true) { None } else { shown };
        let next = next.and_then(|it| self.find_step(it));
        let Some(state) = next.and_then(|it| it.state.take()) else { return };
        // A graph inside a task runs while nobody reads, so the event that showed this state may have been lost with
        // its run. A command given to the root changes its state in between, and is no step.
        let mut before = self.steps.iter().rev().filter(|it| it.number <= number);
        let before = before.find_map(|it| it.state.as_ref());
        if self.followed && source == Source::Loop && before != Some(&state) {
            self.step_mut(number).state = Some(state);
        }
    }

    /// A task is announced; says whether it was before.
    fn announce(&mut self, number: i64, task: Task) -> bool {
        let done_again = std::mem::take(&mut self.goes_on);
        if done_again {
            self.steps.retain(|it| it.number <= number);
        }
        let step = self.step_mut(number);
        if done_again {
            step.reopen();
        }
        step.announce(task)
    }

    /// The questions of the last step's tasks that wait for an answer, by id.
    fn open_questions(&self) -> BTreeSet<String> {
        let tasks = self.steps.last().map(|it| it.tasks.iter().chain(it.earlier.values()));
        tasks.into_iter().flatten().flat_map(Task::open_questions).collect()
    }

    fn finish(self) -> GraphTrace {
        let steps = self.steps.into_iter().map(Step::finish);
        GraphTrace {
            steps: steps.filter(|it| !it.tasks.is_empty() || it.state.is_some()).collect(),
        }
    }
}

impl Step {
    fn task_mut(&mut self, id: TaskId) -> Option<&mut Task> {
        self.tasks.get_mut(*self.index.get(&id)?)
    }

    /// The step is announced once more: what is known of its tasks is kept aside.
    fn reopen(&mut self) {
        self.state = None;
        self.index.clear();
        // Those of a run that was lost before it had announced them all are among them still.
        self.earlier.extend(self.tasks.drain(..).map(|it| (it.id, it)));
    }

    fn announce(&mut self, mut task: Task) -> bool {
        let earlier = self.earlier.remove(&task.id);
        let again = earlier.is_some();
        if let Some(earlier) = earlier {
            task.follow(earlier);
        }
        self.index.insert(task.id, self.tasks.len());
        self.tasks.push(task);
        again
    }

    fn finish(mut self) -> StepTrace {
        // Task order: those led to by edges first. They are announced the other way round.
        self.tasks.sort_by_key(|it| it.sent);
        let tasks = self.tasks.into_iter().map(Task::finish).collect();
        StepTrace { step: self.number, tasks, state: self.state }
    }
}

/// How long after the first event something happened.
type Since = Duration;
