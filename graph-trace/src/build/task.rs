//! Builds the trace of one task: the actions of its body and of its error handler, and the graphs that it ran.

use graph_core::{
    EventKind, FieldWrite, Interrupt,
    checkpoint::{GotoRecord, TaskId},
};
use serde_json::Value;

use super::{Elapsed, GraphBuilder};
use crate::trace::{EffectTrace, FailedAttempt, SendTrace, TaskTrace, Timing};

/// Builds the trace of one task.
#[derive(Clone, Debug)]
pub(super) struct TaskBuilder {
    pub(super) id: TaskId,
    /// Number of the task's current execution. It changes each time the task is started or retried; see
    /// [`GraphBuilder::set_generation`].
    pub(super) generation: u64,
    node: String,
    input: Value,
    /// Whether the task's input is a payload that was sent to it.
    pub(super) sent: bool,
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
    /// The same task in an earlier run. It is kept until it is clear whether the task is executed again.
    previous: Option<Box<Self>>,
}

/// The actions of a task's body or of its error handler.
#[derive(Clone, Debug, Default)]
struct Activity {
    retries: Vec<FailedAttempt>,
    effects: Vec<EffectTrace>,
    custom: Vec<Value>,
    messages: Vec<Value>,
}

#[derive(Clone, Debug)]
struct TaskInterrupt {
    id: String,
    value: Value,
    is_pending: bool,
}

impl TaskBuilder {
    pub(super) fn new(
        id: TaskId,
        node: &str,
        (input, sent): (Value, bool),
        generation: u64,
        at: Elapsed,
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
    pub(super) fn continue_from(&mut self, mut previous: Self) {
        self.is_restarted = true;
        self.interrupts = previous.interrupts.clone();
        self.graphs = std::mem::take(&mut previous.graphs);
        self.previous = match (previous.has_events, previous.previous.take()) {
            // `previous` was started but had no further events, so the result before it is more complete.
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

    pub(super) fn pending_interrupts(&self) -> impl Iterator<Item = String> {
        self.interrupts.iter().filter(|it| it.is_pending).map(|it| it.id.clone())
    }

    pub(super) fn add_event(&mut self, kind: &EventKind, by_handler: bool, elapsed: Elapsed) {
        self.restore_previous(kind, by_handler);
        self.timing.end = elapsed;
        let activity = if by_handler { &mut self.handler } else { &mut self.body };
        match kind {
            EventKind::Custom(value) => activity.custom.push(value.clone()),
            EventKind::Message(value) => activity.messages.push(value.clone()),
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

    /// Handles the first event of a task. If an earlier run already executed the task, the kind of this event determines
    /// how much of the earlier result is kept.
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

    pub(super) fn finish(mut self) -> TaskTrace {
        // The task was started again but had no further events, so the earlier result still applies.
        if let (false, Some(previous)) = (self.has_events, self.previous.take()) {
            return Self { graphs: self.graphs, previous: None, has_events: true, ..*previous }
                .finish();
        }
        if self.body_finished {
            // Drop graphs that belong to earlier attempts or runs and that the last attempt did not run.
            self.graphs.retain(|it| it.1.generation == self.generation);
        }
        // Graphs that a node runs concurrently arrive in an arbitrary order. They are sorted by the number in their
        // namespace.
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

impl Activity {
    /// Moves the stream output of a failed attempt from the task to that attempt.
    fn retry(&mut self, attempt: u32, error: &str) {
        self.retries.push(FailedAttempt {
            attempt,
            error: error.to_owned(),
            custom: std::mem::take(&mut self.custom),
            messages: std::mem::take(&mut self.messages),
        });
    }

    /// Adds an effect unless it is already present, because a node that is executed again receives the same
    /// results.
    fn effect(&mut self, key: &str, result: &Value) {
        if !self.effects.iter().any(|it| it.key == key) {
            self.effects.push(EffectTrace { key: key.to_owned(), result: result.clone() });
        }
    }

    /// Sorts effects by key, because concurrent calls complete in an arbitrary order.
    fn sorted(mut self) -> Self {
        self.effects.sort_by(|a, b| a.key.cmp(&b.key));
        self
    }
}

fn concat<T>(mut first: Vec<T>, second: Vec<T>) -> Vec<T> {
    first.extend(second);
    first
}
