//! From events to a trace.
//!
//! Events come in the order in which things happened, which is another one each time. What is put together here
//! depends only on the order within one task and on the order in which a step's tasks are announced, and these are
//! always the same.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use graph_core::{
    Event, EventKind,
    checkpoint::{GotoRecord, TaskId},
};

use crate::trace::{
    EffectTrace, End, GraphTrace, Header, Retry, SendTrace, StepTrace, TaskTrace, Timing, Trace,
};

/// Puts a trace together from events, which may be those of several runs of one thread.
///
/// A run that goes on after a crash or a question does the open step once more; what it does there replaces what was
/// known of it.
#[derive(Debug, Default)]
pub struct TraceBuilder {
    root: Visit,
    /// Where each task stands: the way to it from the root.
    places: HashMap<TaskId, Vec<Hop>>,
    start: Option<Instant>,
}

/// One task on the way from the root to a graph inside.
#[derive(Clone, Debug)]
struct Hop {
    /// The graph that the task belongs to.
    namespace: Arc<str>,
    step: i64,
    task: TaskId,
}

/// One visit of a graph.
#[derive(Debug, Default)]
struct Visit {
    steps: Vec<Step>,
}

#[derive(Debug, Default)]
struct Step {
    number: i64,
    tasks: Vec<Task>,
    state: Option<serde_json::Value>,
}

#[derive(Debug)]
struct Task {
    id: TaskId,
    trace: TaskTrace,
    /// The graphs it ran, by namespace.
    visits: Vec<(String, Visit)>,
}

impl TraceBuilder {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an event in.
    pub fn note(&mut self, event: &Event) {
        let start = *self.start.get_or_insert(event.at);
        let since = event.at.saturating_duration_since(start);
        let Some(visit) = self.visit(event) else { return };
        let step = visit.step(event.step);
        let Some(id) = event.handles.or(event.task) else {
            if let EventKind::Values(values) = &event.kind {
                step.state = Some(values.to_json());
            }
            return;
        };
        if let EventKind::TaskStarted { input } = &event.kind {
            let node = event.node.as_deref().unwrap_or_default();
            step.start(id, node, input.clone(), since);
            let way = self.way(event);
            self.places.insert(id, way);
        } else if let Some(task) = step.tasks.iter_mut().find(|it| it.id == id) {
            task.note(&event.kind, since);
        }
    }

    /// The trace of all that was taken in.
    pub fn finish(self, header: Header, end: End) -> Trace {
        Trace { header, root: self.root.finish(), end }
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
        let way = self.places.get(&outer)?.clone();
        let mut visit = &mut self.root;
        for (nth, hop) in way.iter().enumerate() {
            let task = visit.step(hop.step).tasks.iter_mut().find(|it| it.id == hop.task)?;
            let inside = way.get(nth + 1).map_or(&event.namespace, |it| &it.namespace);
            visit = task.visit(inside);
        }
        Some(visit)
    }
}

impl Visit {
    fn step(&mut self, number: i64) -> &mut Step {
        let at = match self.steps.binary_search_by_key(&number, |it| it.number) {
            Ok(at) => at,
            Err(at) => {
                self.steps.insert(at, Step { number, ..Step::default() });
                at
            }
        };
        &mut self.steps[at]
    }

    fn finish(self) -> GraphTrace {
        let steps = self.steps.into_iter().map(Step::finish);
        GraphTrace { steps: steps.filter(|it| !it.tasks.is_empty() || it.state.is_some()).collect() }
    }
}

impl Step {
    /// A task is announced. One that was announced before is done once more.
    fn start(&mut self, id: TaskId, node: &str, input: serde_json::Value, at: Duration) {
        let timing = Some(Timing { start: at, end: at });
        let trace = TaskTrace { node: node.to_owned(), input, timing, ..TaskTrace::default() };
        let task = Task { id, trace, visits: Vec::new() };
        match self.tasks.iter_mut().find(|it| it.id == id) {
            Some(known) => {
                // What its graphs did stays: they go on where they stood.
                let visits = std::mem::take(&mut known.visits);
                *known = Task { visits, ..task };
            }
            None => self.tasks.push(task),
        }
    }

    fn finish(self) -> StepTrace {
        let tasks = self.tasks.into_iter().map(Task::finish).collect();
        StepTrace { step: self.number, tasks, state: self.state }
    }
}

impl Task {
    fn visit(&mut self, namespace: &str) -> &mut Visit {
        let at = match self.visits.iter().position(|it| it.0 == namespace) {
            Some(at) => at,
            None => {
                self.visits.push((namespace.to_owned(), Visit::default()));
                self.visits.len() - 1
            }
        };
        &mut self.visits[at].1
    }

    fn note(&mut self, kind: &EventKind, since: Duration) {
        if let Some(timing) = &mut self.trace.timing {
            timing.end = since;
        }
        let trace = &mut self.trace;
        match kind {
            EventKind::Custom(value) => trace.custom.push(value.clone()),
            EventKind::Message(value) => trace.messages.push(value.clone()),
            EventKind::Retried { attempt, error, .. } => {
                trace.retries.push(Retry { attempt: *attempt, error: error.clone() });
            }
            EventKind::Effect { key, result, .. } => {
                // A node that runs again is given the same results again.
                if !trace.effects.iter().any(|it| it.key == *key) {
                    let effect = EffectTrace { key: key.clone(), result: result.clone() };
                    trace.effects.push(effect);
                }
            }
            EventKind::Update { writes, gotos, cached: true, handler } => {
                trace.handled |= handler;
                trace.writes = writes.clone();
                set_ways(trace, gotos);
            }
            EventKind::TaskFinished { writes, error, interrupts, gotos, handler } => {
                trace.handled |= handler;
                if !handler || error.is_some() {
                    trace.error = error.clone();
                }
                trace.questions = interrupts.iter().map(|it| it.value.clone()).collect();
                trace.writes = writes.clone();
                set_ways(trace, gotos);
            }
            _ => {}
        }
    }

    fn finish(mut self) -> TaskTrace {
        // Calls that a node makes at once come back in any order.
        self.trace.effects.sort_by(|a, b| a.key.cmp(&b.key));
        // So do graphs that a node runs at once; their number in the namespace tells which is which.
        self.visits.sort_by(|a, b| (a.0.len(), &a.0).cmp(&(b.0.len(), &b.0)));
        self.trace.graphs = self.visits.into_iter().map(|it| it.1.finish()).collect();
        self.trace
    }
}

fn set_ways(trace: &mut TaskTrace, gotos: &[GotoRecord]) {
    (trace.routes, trace.sends) = (Vec::new(), Vec::new());
    for goto in gotos {
        match &goto.payload {
            Some(payload) => {
                let payload = payload.clone();
                trace.sends.push(SendTrace { to: goto.to.clone(), payload });
            }
            None => trace.routes.push(goto.to.clone()),
        }
    }
}
