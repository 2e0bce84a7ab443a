//! Limits how much a guest may send for each open request, and for requests that are already closed.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use crate::protocol::{
    Frame, Kind, MAX_EVENT_MEMORY, MAX_MESSAGE, MAX_PENDING_CALL_MEMORY, ProtocolError,
    from_guest::OutputStream,
    message::{Fault, GraphEvent, HostCallRequest},
    shape,
};

/// Maximum number of host calls in flight. It is larger than the guest's own limit, because the guest receives a reply
/// slightly before the host counts the call as completed.
const MAX_HOST_CALLS: usize = 1024;

/// Number of bytes that a guest may always send for unknown requests. A restored guest may still send messages that
/// were meant for an earlier host.
const LATE_BYTES: u64 = 1 << 20;

/// Number of bytes that a message for an unknown request costs in addition to its length, so that the number of empty
/// messages is bounded too.
const LATE_MESSAGE_OVERHEAD: u64 = 64;

#[derive(Debug)]
pub(crate) enum Incoming {
    Reply(Vec<u8>),
    Failure(Fault),
    Event(Box<GraphEvent>),
    Output(OutputStream, Vec<u8>),
    HostCall(u64, Box<HostCallRequest>),
}

pub(super) struct OpenRequests {
    pub(super) open: BTreeMap<u64, OpenRequest>,
    /// Number of bytes that may still arrive for requests that are no longer open.
    late_bytes: u64,
}

impl Default for OpenRequests {
    fn default() -> Self {
        Self { open: BTreeMap::new(), late_bytes: LATE_BYTES }
    }
}

pub(super) struct OpenRequest {
    pub(super) queue: mpsc::UnboundedSender<Incoming>,
    pub(super) window: ReceiveWindow,
    /// Estimated memory, in bytes, of each host call that has no reply yet, keyed by the id of the call.
    pending_calls: BTreeMap<u64, u64>,
}

impl OpenRequest {
    pub(super) fn new(queue: mpsc::UnboundedSender<Incoming>, window: ReceiveWindow) -> Self {
        Self { queue, window, pending_calls: BTreeMap::new() }
    }
}

/// The amount that a guest may still send for a request before it sends the reply.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReceiveWindow {
    /// Number of events that the guest may still send. It grows as events are read.
    pub(crate) events: u64,
    /// Number of bytes of program output that the guest may still send.
    pub(crate) output: u64,
    /// Number of host calls that the guest may still make.
    pub(crate) host_calls: usize,
}

impl ReceiveWindow {
    pub(crate) fn for_graph(events: u64) -> Self {
        Self { events, output: 0, host_calls: MAX_HOST_CALLS }
    }

    pub(crate) fn for_output(bytes: u64) -> Self {
        Self { output: bytes, ..Self::default() }
    }

    /// Returns the number of bytes that the guest may still send within the window.
    fn bytes(&self) -> u64 {
        let calls = if self.host_calls > 0 { MAX_PENDING_CALL_MEMORY } else { 0 };
        self.events
            .saturating_mul(MAX_EVENT_MEMORY)
            .saturating_add(self.output)
            .saturating_add(calls)
    }
}

impl OpenRequests {
    /// Deducts a message from the window of its request and returns `true`. If the request is not open, discards the
    /// message as late and returns `false`. Fails if the guest has sent more than it may.
    pub(super) fn admit(&mut self, id: u64, message: &Frame) -> Result<bool, ProtocolError> {
        let is_pending = self.open.values().any(|it| it.pending_calls.contains_key(&message.id));
        if message.kind == Kind::Request && is_pending {
            return Err(ProtocolError::UnexpectedMessage(
                "a host call with the id of a pending call",
            ));
        }
        match self.open.get_mut(&id) {
            Some(request) => {
                request.admit(message).map(|()| true).map_err(ProtocolError::UnexpectedMessage)
            }
            None => self.drop_late(message).map(|()| false),
        }
    }

    /// Releases the memory that was counted for a host call which now has its reply.
    pub(super) fn finish_host_call(&mut self, id: u64) {
        for request in self.open.values_mut() {
            request.pending_calls.remove(&id);
        }
    }

    /// Removes a request that has its reply. Messages that its window still allowed may be in transit, so their bytes
    /// are added to those that may arrive late.
    pub(super) fn remove(&mut self, id: u64) {
        if let Some(request) = self.open.remove(&id) {
            self.late_bytes = self.late_bytes.saturating_add(request.window.bytes());
        }
    }

    /// Removes a request that was cancelled. Its reply may be in transit too, so the size of a reply is also added to
    /// the bytes that may arrive late.
    pub(super) fn cancel(&mut self, id: u64) {
        if self.open.contains_key(&id) {
            self.late_bytes = self.late_bytes.saturating_add(MAX_MESSAGE as u64);
            self.remove(id);
        }
    }

    /// Discards a message for a request that is not open. Fails once too many bytes have been discarded.
    fn drop_late(&mut self, message: &Frame) -> Result<(), ProtocolError> {
        let cost = LATE_MESSAGE_OVERHEAD + message.payload.len() as u64;
        let left = self.late_bytes.checked_sub(cost);
        self.late_bytes =
            left.ok_or(ProtocolError::UnexpectedMessage("too many messages for unknown requests"))?;
        Ok(())
    }
}

impl OpenRequest {
    fn admit(&mut self, message: &Frame) -> Result<(), &'static str> {
        let window = &mut self.window;
        match message.kind {
            Kind::Event if memory_estimate(message) > MAX_EVENT_MEMORY => {
                Err("an event that exceeds the memory limit")
            }
            Kind::Event => consume(&mut window.events, 1).ok_or("more events than were granted"),
            Kind::Stdout | Kind::Stderr => {
                let bytes = message.payload.len() as u64;
                consume(&mut window.output, bytes).ok_or("more output than the limit allows")
            }
            Kind::Request if window.host_calls == 0 => Err("too many host calls in flight"),
            Kind::Request => {
                window.host_calls -= 1;
                self.pending_calls.insert(message.id, memory_estimate(message));
                let total: u64 = self.pending_calls.values().sum();
                let fits = total <= MAX_PENDING_CALL_MEMORY;
                fits.then_some(()).ok_or("pending host calls that exceed the memory limit")
            }
            _ => Ok(()),
        }
    }
}

/// Subtracts `taken` from `left`. Returns `None` if `left` is too small.
fn consume(left: &mut u64, taken: u64) -> Option<()> {
    *left = left.checked_sub(taken)?;
    Some(())
}

/// Returns the estimated memory of a message, in bytes. Returns 0 for a malformed message, which is refused later, when
/// it is decoded.
fn memory_estimate(message: &Frame) -> u64 {
    shape::check(&message.payload).unwrap_or_default()
}
