//! One task: what its body did, what its error handler did in its place, and which graphs it ran.

use graph_core::{
    EventKind, FieldWrite, Interrupt,
    checkpoint::{GotoRecord, TaskId},
};
use serde_json::Value;

use super::{Since, Visit};
use crate::trace::{EffectTrace, Retry, SendTrace, TaskTrace, Timing};

/// What is known of a task.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) id: TaskId,
    /// Another one each time it is announced or tried: see [`Visit::renew`].
    pub(super) life: u64,
    node: String,
    input: Value,
    /// Whether its input was sent to it.
    pub(super) sent: bool,
    timing: Timing,
    body: Part,
    handler: Part,
    error: Option<String>,
    handled: bool,
    cached: bool,
    /// All that it asked, and whether it still waits.
    questions: Vec<Question>,
    writes: Vec<FieldWrite>,
    gotos: Vec<GotoRecord>,
    /// The graphs it ran, by namespace.
    visits: Vec<(String, Visit)>,
    /// Whether it was announced before.
    followed: bool,
    /// Whether anything is known of it in this life but that it was announced.
    seen: bool,
    /// Whether its body came to an end in this life.
    ended: bool,
    /// What an earlier run knew of it, until it is clear whether it is run again.
    earlier: Option<Box<Self>>,
}

/// What the body said and called, or the handler.
#[derive(Clone, Debug, Default)]
struct Part {
    retries: Vec<Retry>,
    effects: Vec<EffectTrace>,
    custom: Vec<Value>,
    messages: Vec<Value>,
}

#[derive(Clone, Debug)]
struct Question {
    id: String,
    value: Value,
    open: bool,
}

impl Task {
    pub(super) fn new(
        id: TaskId,
        node: &str,
        (input, sent): (Value, bool),
        life: u64,
        at: Since,
    ) -> Self {
        Self {
            id,
            life,
            node: node.to_owned(),
            input,
            sent,
            timing: Timing { start: at, end: at },
            body: Part::default(),
            handler: Part::default(),
            error: None,
            handled: false,
            cached: false,
            questions: Vec::new(),
            writes: Vec::new(),
            gotos: Vec::new(),
            visits: Vec::new(),
            followed: false,
            seen: false,
            ended: false,
            earlier: None,
        }
    }

    /// It was announced before. Its questions stay asked, and its graphs go on where they stood.
    pub(super) fn follow(&mut self, mut earlier: Self) {
        self.followed = true;
        self.questions = earlier.questions.clone();
        self.visits = std::mem::take(&mut earlier.visits);
        self.earlier = match (earlier.seen, earlier.earlier.take()) {
            // Announced and nothing more: it says less than what was known before.
            (false, Some(before)) => Some(before),
            _ => Some(Box::new(earlier)),
        };
    }

    /// The visit of a graph that it runs.
    pub(super) fn visit(&mut self, namespace: &str) -> &mut Visit {
        let at = match self.visits.iter().position(|it| it.0 == namespace) {
            Some(at) => at,
            None => {
                self.visits.push((namespace.to_owned(), Visit::default()));
                self.visits.len() - 1
            }
        };
        let visit = &mut self.visits[at].1;
        visit.followed = self.followed;
        visit.renew(self.life);
        visit
    }

    pub(super) fn open_questions(&self) -> impl Iterator<Item = String> {
        self.questions.iter().filter(|it| it.open).map(|it| it.id.clone())
    }

    pub(super) fn note(&mut self, kind: &EventKind, by_handler: bool, since: Since) {
        self.recall(kind, by_handler);
        self.timing.end = since;
        let part = if by_handler { &mut self.handler } else { &mut self.body };
        match kind {
            EventKind::Custom(value) => part.custom.push(value.clone()),
            EventKind::Message(value) => part.messages.push(value.clone()),
            EventKind::Retried { attempt, error, .. } => part.retry(*attempt, error),
            EventKind::Effect { key, result, .. } => part.effect(key, result),
            EventKind::Update { writes, gotos, cached: true, handler } => {
                self.handled |= handler;
                self.close_questions();
                (self.writes, self.gotos) = (writes.clone(), gotos.clone());
            }
            EventKind::TaskFinished { writes, error, interrupts, gotos, handler } => {
                self.handled |= handler;
                self.ended |= !by_handler;
                if !handler || error.is_some() {
                    self.error.clone_from(error);
                }
                self.close_questions();
                interrupts.iter().for_each(|it| self.ask(it));
                (self.writes, self.gotos) = (writes.clone(), gotos.clone());
            }
            _ => {}
        }
    }

    /// The first that is told of a task decides what becomes of what an earlier run knew of it.
    fn recall(&mut self, kind: &EventKind, by_handler: bool) {
        let first = !std::mem::replace(&mut self.seen, true);
        let known = matches!(kind, EventKind::Update { cached: true, .. });
        let earlier = if first { self.earlier.take() } else { None };
        match earlier {
            // It is not run again: all that it did was done then.
            Some(earlier) if known => {
                (self.body, self.handler) = (earlier.body, earlier.handler);
                (self.error, self.timing, self.cached) =
                    (earlier.error, earlier.timing, earlier.cached);
            }
            // Only its handler is run again.
            Some(earlier) if by_handler => {
                (self.body, self.error, self.timing.start) =
                    (earlier.body, earlier.error, earlier.timing.start);
            }
            _ => self.cached |= known,
        }
    }

    fn close_questions(&mut self) {
        self.questions.iter_mut().for_each(|it| it.open = false);
    }

    /// A question that was asked before is not another one.
    fn ask(&mut self, asked: &Interrupt) {
        let Interrupt { id, value, .. } = asked;
        match self.questions.iter_mut().find(|it| it.id == *id) {
            Some(known) => (known.value, known.open) = (value.clone(), true),
            None => {
                self.questions.push(Question { id: id.clone(), value: value.clone(), open: true })
            }
        }
    }

    pub(super) fn finish(mut self) -> TaskTrace {
        // Nothing was told of it since it was announced again: then what was known holds.
        if let (false, Some(earlier)) = (self.seen, self.earlier.take()) {
            return Self { visits: self.visits, earlier: None, seen: true, ..*earlier }.finish();
        }
        if self.ended {
            // Graphs of an earlier attempt or run that the last one did not come to.
            self.visits.retain(|it| it.1.life == self.life);
        }
        // Graphs that a node runs at once come in any order; their number in the namespace tells which is which.
        let own = format!("{}:{}", self.node, self.id);
        self.visits.sort_by_cached_key(|(namespace, _)| {
            let by_handler = namespace.contains(':') && !namespace.contains(&own);
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
            effects: joined(body.effects, handler.effects),
            custom: joined(body.custom, handler.custom),
            messages: joined(body.messages, handler.messages),
            graphs: self.visits.into_iter().map(|it| it.1.finish()).collect(),
            error: self.error,
            handled: self.handled,
            cached: self.cached,
            questions: self.questions.into_iter().map(|it| it.value).collect(),
            writes: self.writes,
            routes,
            sends,
            timing: Some(self.timing),
        }
    }
}

impl Part {
    /// What an attempt said that failed is told of that attempt.
    fn retry(&mut self, attempt: u32, error: &str) {
        self.retries.push(Retry {
            attempt,
            error: error.to_owned(),
            custom: std::mem::take(&mut self.custom),
            messages: std::mem::take(&mut self.messages),
        });
    }

    /// A node that runs again is given the same results again.
    fn effect(&mut self, key: &str, result: &Value) {
        if !self.effects.iter().any(|it| it.key == key) {
            self.effects.push(EffectTrace { key: key.to_owned(), result: result.clone() });
        }
    }

    /// Calls that a node makes at once come back in any order.
    fn sorted(mut self) -> Self {
        self.effects.sort_by(|a, b| a.key.cmp(&b.key));
        self
    }
}

fn joined<T>(mut first: Vec<T>, second: Vec<T>) -> Vec<T> {
    first.extend(second);
    first
}
