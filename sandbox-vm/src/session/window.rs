//! How much a guest may send: for each question under way, and for those that nobody waits for any more.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use super::Incoming;
use crate::protocol::{
    Frame, Kind, MAX_EVENT_MEMORY, MAX_MESSAGE, MAX_PENDING_CALL_MEMORY, ProtocolError, shape,
};

/// How many questions of a guest may wait for their answers: more than the guest has under way at once, for it hears of
/// an answer a little earlier than it is counted here.
const MAX_HOST_CALLS: usize = 1024;

/// How many bytes may come for nobody in any case: a guest that was restored may have said something to an earlier host.
const LATE_BYTES: u64 = 1 << 20;

/// What a message that nobody waits for costs beside its bytes, so that empty ones are bounded too.
const LATE_MESSAGE_OVERHEAD: u64 = 64;

/// The questions under way.
pub(super) struct OpenRequests {
    pub(super) open: BTreeMap<u64, OpenRequest>,
    /// How many bytes may still come for questions that nobody waits for any more.
    late_bytes: u64,
}

impl Default for OpenRequests {
    fn default() -> Self {
        Self { open: BTreeMap::new(), late_bytes: LATE_BYTES }
    }
}

/// Somebody who waits for answers.
pub(super) struct OpenRequest {
    pub(super) queue: mpsc::UnboundedSender<Incoming>,
    pub(super) window: ReceiveWindow,
    /// The questions back that have no answer yet, and how much memory each may take.
    pending_calls: BTreeMap<u64, u64>,
}

impl OpenRequest {
    pub(super) fn new(queue: mpsc::UnboundedSender<Incoming>, window: ReceiveWindow) -> Self {
        Self { queue, window, pending_calls: BTreeMap::new() }
    }
}

/// How much a guest may send for a question before its answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReceiveWindow {
    /// Events; more are allowed as they are read.
    pub(crate) events: u64,
    /// Bytes of output.
    pub(crate) output: u64,
    /// OpenRequests back.
    pub(crate) host_calls: usize,
}

impl ReceiveWindow {
    /// ReceiveWindow for a graph's run.
    pub(crate) fn for_graph(events: u64) -> Self {
        Self { events, output: 0, host_calls: MAX_HOST_CALLS }
    }

    /// ReceiveWindow for a program's output.
    pub(crate) fn for_output(bytes: u64) -> Self {
        Self { output: bytes, ..Self::default() }
    }

    /// How many bytes there is window for.
    fn bytes(&self) -> u64 {
        let calls = if self.host_calls > 0 { MAX_PENDING_CALL_MEMORY } else { 0 };
        self.events
            .saturating_mul(MAX_EVENT_MEMORY)
            .saturating_add(self.output)
            .saturating_add(calls)
    }
}

impl OpenRequests {
    /// Takes the window that a message for this question needs; says whether anybody waits for it.
    pub(super) fn admit(&mut self, id: u64, message: &Frame) -> Result<bool, ProtocolError> {
        let is_pending = self.open.values().any(|it| it.pending_calls.contains_key(&message.id));
        if message.kind == Kind::Request && is_pending {
            return Err(ProtocolError::UnexpectedMessage("a question asked twice"));
        }
        match self.open.get_mut(&id) {
            Some(request) => {
                request.admit(message).map(|()| true).map_err(ProtocolError::UnexpectedMessage)
            }
            None => self.drop_late(message).map(|()| false),
        }
    }

    /// A question of the guest's has its answer, and takes no memory any more.
    pub(super) fn finish_host_call(&mut self, id: u64) {
        for request in self.open.values_mut() {
            request.pending_calls.remove(&id);
        }
    }

    /// This one has its answer. What else it had window for may still be on its way.
    pub(super) fn remove(&mut self, id: u64) {
        if let Some(request) = self.open.remove(&id) {
            self.late_bytes = self.late_bytes.saturating_add(request.window.bytes());
        }
    }

    /// Nobody waits for this one any more; its answer may still be on its way too.
    pub(super) fn cancel(&mut self, id: u64) {
        if self.open.contains_key(&id) {
            self.late_bytes = self.late_bytes.saturating_add(MAX_MESSAGE as u64);
            self.remove(id);
        }
    }

    /// Drops a message that nobody waits for, unless it is one too many.
    fn drop_late(&mut self, message: &Frame) -> Result<(), ProtocolError> {
        let cost = LATE_MESSAGE_OVERHEAD + message.payload.len() as u64;
        let left = self.late_bytes.checked_sub(cost);
        self.late_bytes =
            left.ok_or(ProtocolError::UnexpectedMessage("messages that nobody waits for"))?;
        Ok(())
    }
}

impl OpenRequest {
    fn admit(&mut self, message: &Frame) -> Result<(), &'static str> {
        let window = &mut self.window;
        match message.kind {
            Kind::Event if memory_estimate(message) > MAX_EVENT_MEMORY => {
                Err("an event that is too large")
            }
            Kind::Event => consume(&mut window.events, 1).ok_or("an event too many"),
            Kind::Stdout | Kind::Stderr => {
                let bytes = message.payload.len() as u64;
                consume(&mut window.output, bytes).ok_or("more output than is allowed")
            }
            Kind::Request if window.host_calls == 0 => Err("a question too many"),
            Kind::Request => {
                window.host_calls -= 1;
                self.pending_calls.insert(message.id, memory_estimate(message));
                let total: u64 = self.pending_calls.values().sum();
                let fits = total <= MAX_PENDING_CALL_MEMORY;
                fits.then_some(()).ok_or("questions that are too large together")
            }
            _ => Ok(()),
        }
    }
}

/// Takes so much of what is left, if there is so much.
fn consume(left: &mut u64, taken: u64) -> Option<()> {
    *left = left.checked_sub(taken)?;
    Some(())
}

/// How much memory a message may take; one whose shape is wrong is refused where it is read.
fn memory_estimate(message: &Frame) -> u64 {
    shape::check(&message.payload).unwrap_or_default()
}
