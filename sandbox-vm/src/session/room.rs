//! How much a guest may send: for each question under way, and for those that nobody waits for any more.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use super::Incoming;
use crate::protocol::{Frame, Kind, MAX_ASKED, MAX_EVENT, MAX_MESSAGE, ProtocolError, shape};

/// How many questions of a guest may wait for their answers: more than the guest has under way at once, for it hears of
/// an answer a little earlier than it is counted here.
const MAX_ASKS: usize = 1024;

/// How many bytes may come for nobody in any case: a guest that was restored may have said something to an earlier host.
const LATE: u64 = 1 << 20;

/// What a message that nobody waits for costs beside its bytes, so that empty ones are bounded too.
const LATE_MESSAGE: u64 = 64;

/// The questions under way.
pub(super) struct Questions {
    pub(super) waiting: BTreeMap<u64, Waiting>,
    /// How many bytes may still come for questions that nobody waits for any more.
    late: u64,
}

impl Default for Questions {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), late: LATE }
    }
}

/// Somebody who waits for answers.
pub(super) struct Waiting {
    pub(super) queue: mpsc::UnboundedSender<Incoming>,
    pub(super) room: Room,
    /// The questions back that have no answer yet, and how much memory each may take.
    asked: BTreeMap<u64, u64>,
}

impl Waiting {
    pub(super) fn new(queue: mpsc::UnboundedSender<Incoming>, room: Room) -> Self {
        Self { queue, room, asked: BTreeMap::new() }
    }
}

/// How much a guest may send for a question before its answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room {
    /// Events; more are allowed as they are read.
    pub(crate) events: u64,
    /// Bytes of output.
    pub(crate) output: u64,
    /// Questions back.
    pub(crate) asks: usize,
}

impl Room {
    /// Room for a graph's run.
    pub(crate) fn for_graph(events: u64) -> Self {
        Self { events, output: 0, asks: MAX_ASKS }
    }

    /// Room for a program's output.
    pub(crate) fn for_output(bytes: u64) -> Self {
        Self { output: bytes, ..Self::default() }
    }

    /// How many bytes there is room for.
    fn bytes(&self) -> u64 {
        let asked = if self.asks > 0 { MAX_ASKED } else { 0 };
        self.events.saturating_mul(MAX_EVENT).saturating_add(self.output).saturating_add(asked)
    }
}

impl Questions {
    /// Takes the room that a message for this question needs; says whether anybody waits for it.
    pub(super) fn take(&mut self, question: u64, message: &Frame) -> Result<bool, ProtocolError> {
        let is_asked = self.waiting.values().any(|it| it.asked.contains_key(&message.id));
        if message.kind == Kind::Request && is_asked {
            return Err(ProtocolError::OutOfTurn("a question asked twice"));
        }
        match self.waiting.get_mut(&question) {
            Some(waiting) => waiting.take(message).map(|()| true).map_err(ProtocolError::OutOfTurn),
            None => self.drop_late(message).map(|()| false),
        }
    }

    /// A question of the guest's has its answer, and takes no memory any more.
    pub(super) fn answered(&mut self, id: u64) {
        for waiting in self.waiting.values_mut() {
            waiting.asked.remove(&id);
        }
    }

    /// This one has its answer. What else it had room for may still be on its way.
    pub(super) fn remove(&mut self, id: u64) {
        if let Some(waiting) = self.waiting.remove(&id) {
            self.late = self.late.saturating_add(waiting.room.bytes());
        }
    }

    /// Nobody waits for this one any more; its answer may still be on its way too.
    pub(super) fn cancel(&mut self, id: u64) {
        if self.waiting.contains_key(&id) {
            self.late = self.late.saturating_add(MAX_MESSAGE as u64);
            self.remove(id);
        }
    }

    /// Drops a message that nobody waits for, unless it is one too many.
    fn drop_late(&mut self, message: &Frame) -> Result<(), ProtocolError> {
        let cost = LATE_MESSAGE + message.payload.len() as u64;
        let left = self.late.checked_sub(cost);
        self.late = left.ok_or(ProtocolError::OutOfTurn("messages that nobody waits for"))?;
        Ok(())
    }
}

impl Waiting {
    fn take(&mut self, message: &Frame) -> Result<(), &'static str> {
        let room = &mut self.room;
        match message.kind {
            Kind::Event if memory(message) > MAX_EVENT => Err("an event that is too large"),
            Kind::Event => less(&mut room.events, 1).ok_or("an event too many"),
            Kind::Stdout | Kind::Stderr => {
                let bytes = message.payload.len() as u64;
                less(&mut room.output, bytes).ok_or("more output than is allowed")
            }
            Kind::Request if room.asks == 0 => Err("a question too many"),
            Kind::Request => {
                room.asks -= 1;
                self.asked.insert(message.id, memory(message));
                let held: u64 = self.asked.values().sum();
                let fits = held <= MAX_ASKED;
                fits.then_some(()).ok_or("questions that are too large together")
            }
            _ => Ok(()),
        }
    }
}

/// Takes so much of what is left, if there is so much.
fn less(left: &mut u64, taken: u64) -> Option<()> {
    *left = left.checked_sub(taken)?;
    Some(())
}

/// How much memory a message may take; one whose shape is wrong is refused where it is read.
fn memory(message: &Frame) -> u64 {
    shape::check(&message.payload).unwrap_or_default()
}
