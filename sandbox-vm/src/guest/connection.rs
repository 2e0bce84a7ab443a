//! The guest's end of the channel, which sends events and host calls to the host.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use graph_core::RunControl;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::{
    protocol::{
        self, EVENT_WINDOW, Kind, MAX_EVENT_MEMORY, MAX_PENDING_CALL_MEMORY, decode, frame,
        message::{Fault, FaultCode, GraphEvent, HostCall, HostCallRequest},
        shape,
    },
    sync::lock,
};

/// Maximum number of host calls in flight; other calls wait. A large call takes several permits, so that all calls in
/// flight together never use more than [`MAX_PENDING_CALL_MEMORY`] on the host.
const CALL_WINDOW: u32 = 256;

/// Number of bytes of host memory that one permit represents.
const MEMORY_PER_PERMIT: u64 = MAX_PENDING_CALL_MEMORY / CALL_WINDOW as u64;

/// The guest's end of the channel. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    outbox: mpsc::Sender<Vec<u8>>,
    /// The open runs. The host does not answer the calls of other runs.
    // This is a std mutex because it is held only briefly and never across an await.
    runs: Mutex<BTreeMap<u64, OpenRun>>,
    permits: Arc<Semaphore>,
    next: AtomicU64,
}

/// A run that the host has started and that has not ended.
#[derive(Debug)]
struct OpenRun {
    pending: BTreeMap<u64, PendingCall>,
    credit: Arc<Semaphore>,
    /// The sender of flush requests, once the run can acknowledge them. Each host call uses it to wait until the run's
    /// earlier events are sent.
    flush_requests: Option<mpsc::UnboundedSender<FlushAck>>,
    /// Lets the host drain the run.
    control: RunControl,
}

/// Acknowledges a flush request once all events that preceded the request have been sent.
pub(super) type FlushAck = oneshot::Sender<()>;

/// A host call in flight.
#[derive(Debug)]
struct PendingCall {
    reply: oneshot::Sender<Result<Vec<u8>, Fault>>,
    /// Held until the reply arrives, even if the caller is dropped, because the host is still working on the call.
    _permits: OwnedSemaphorePermit,
}

impl Connection {
    pub(super) fn new(outbox: mpsc::Sender<Vec<u8>>) -> Self {
        let shared = Shared {
            outbox,
            runs: Mutex::default(),
            permits: Arc::new(Semaphore::new(CALL_WINDOW as usize)),
            next: AtomicU64::new(1),
        };
        Self { shared: Arc::new(shared) }
    }

    pub(super) async fn send(&self, kind: Kind, id: u64, payload: &[u8]) {
        // A send error means that the host is gone. The reader detects that too and stops the agent.
        let _ = self.shared.outbox.send(frame::encode(kind, id, payload)).await;
    }

    /// Opens the run that is started by the host's request `run`. Needed only for requests that run a graph.
    pub(super) fn open_run(&self, run: u64) {
        let open = OpenRun {
            pending: BTreeMap::new(),
            credit: Arc::new(Semaphore::new(EVENT_WINDOW)),
            flush_requests: None,
            control: RunControl::default(),
        };
        lock(&self.shared.runs).insert(run, open);
    }

    /// Makes a host call for the run that was started by the host's request `run`. Fails if the run is closed before
    /// the reply arrives.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        run: u64,
        call: HostCall,
    ) -> Result<T, Fault> {
        let terminal = |error| Fault::new(FaultCode::Terminal, error);
        let closed =
            || Fault::new(FaultCode::Failed, "the run has ended or the host has disconnected");
        let payload = protocol::encode(&HostCallRequest { run, call }).map_err(terminal)?;
        let memory = check_memory(
            &payload, MAX_PENDING_CALL_MEMORY, "a host call", "store or send less at once",
        )?;
        self.flush_events(run).await;
        let permits = u32::try_from(memory.div_ceil(MEMORY_PER_PERMIT)).unwrap_or(CALL_WINDOW);
        let permits = self.shared.permits.clone().acquire_many_owned(permits).await;
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (reply, received) = oneshot::channel();
        let pending = PendingCall { reply, _permits: permits.map_err(|_| closed())? };
        // If the caller is dropped while it waits for space in the outbox, the call is never made.
        let slot = self.shared.outbox.reserve().await.map_err(|_| closed())?;
        // The queue of a run's checkpoints may outlive the run, and a call of a closed run would never get a reply.
        match lock(&self.shared.runs).get_mut(&run) {
            Some(open) => open.pending.insert(id, pending),
            None => return Err(closed()),
        };
        slot.send(frame::encode(Kind::Request, id, &payload));
        decode("reply", &received.await.map_err(|_| closed())??).map_err(terminal)
    }

    /// Returns the receiver of a run's flush requests. Its owner must acknowledge each request once all earlier events
    /// have been sent.
    ///
    /// A host call is sent only after this acknowledgement. The host has therefore received every event that preceded
    /// the call, even if the guest dies during the call.
    pub(super) fn flush_requests(&self, run: u64) -> mpsc::UnboundedReceiver<FlushAck> {
        let (sender, requests) = mpsc::unbounded_channel();
        if let Some(open) = lock(&self.shared.runs).get_mut(&run) {
            open.flush_requests = Some(sender);
        }
        requests
    }

    /// Returns the control of a run. The host can drain the run until it is closed.
    pub(super) fn control(&self, run: u64) -> RunControl {
        let runs = lock(&self.shared.runs);
        runs.get(&run).map(|it| it.control.clone()).unwrap_or_default()
    }

    /// Stops a run at the end of its current step. Does nothing if the run has ended.
    pub(super) fn drain(&self, run: u64) {
        let control = lock(&self.shared.runs).get(&run).map(|it| it.control.clone());
        if let Some(control) = control {
            control.drain();
        }
    }

    async fn flush_events(&self, run: u64) {
        let requests = lock(&self.shared.runs).get(&run).and_then(|it| it.flush_requests.clone());
        let (ack, flushed) = oneshot::channel();
        if requests.is_some_and(|it| it.send(ack).is_ok()) {
            // If the sender is dropped, the run has no more events, so there is nothing to wait for.
            let _ = flushed.await;
        }
    }

    /// Delivers the reply to a host call.
    pub(super) fn deliver_reply(&self, id: u64, reply: Result<Vec<u8>, Fault>) {
        let mut runs = lock(&self.shared.runs);
        if let Some(pending) = runs.values_mut().find_map(|it| it.pending.remove(&id)) {
            let _ = pending.reply.send(reply);
        }
    }

    /// Sends an event once the host has granted credit for it.
    pub(super) async fn send_event(&self, run: u64, event: &GraphEvent) -> Result<(), Fault> {
        let terminal = |error| Fault::new(FaultCode::Terminal, error);
        let payload = protocol::encode(event).map_err(terminal)?;
        check_memory(
            &payload, MAX_EVENT_MEMORY, "an event", "use fewer stream modes or emit less at once",
        )?;
        let cancelled = || Fault::new(FaultCode::Refused, "the run was cancelled");
        let credit = self.credit_of(run).ok_or_else(cancelled)?;
        credit.acquire().await.map_err(|_| cancelled())?.forget();
        self.send(Kind::Event, run, &payload).await;
        Ok(())
    }

    /// Adds credit for a run, which lets the run send `events` more events. Does nothing if the run has ended.
    pub(super) fn add_credit(&self, run: u64, events: u32) {
        let Some(credit) = self.credit_of(run) else { return };
        // Ignore credit that exceeds the semaphore's maximum, because `add_permits` would panic. A correct host never
        // grants that much.
        if credit.available_permits() < Semaphore::MAX_PERMITS - events as usize {
            credit.add_permits(events as usize);
        }
    }

    /// Closes a run. Its calls in flight and all later ones fail.
    pub(super) fn close_run(&self, run: u64) {
        lock(&self.shared.runs).remove(&run);
    }

    /// Closes all runs, because the agent stops or because a new host has taken over.
    pub(super) fn close_all_runs(&self) {
        lock(&self.shared.runs).clear();
    }

    fn credit_of(&self, run: u64) -> Option<Arc<Semaphore>> {
        lock(&self.shared.runs).get(&run).map(|it| it.credit.clone())
    }
}

/// Checks that decoding a payload takes at most `limit` bytes of the host's memory. Returns the estimated number of
/// bytes.
fn check_memory(payload: &[u8], limit: u64, what: &str, fix: &str) -> Result<u64, Fault> {
    let memory = shape::check(payload).map_err(|it| Fault::new(FaultCode::Terminal, it))?;
    if memory <= limit {
        return Ok(memory);
    }
    let problem = format!(
        "{what} would take {memory} bytes of the host's memory; at most {limit} are allowed; {fix}"
    );
    Err(Fault::new(FaultCode::Terminal, problem))
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::Connection;
    use crate::protocol::message::HostCall;

    #[tokio::test]
    async fn calls_of_a_closed_run_fail() {
        let (outbox, mut sent) = mpsc::channel(1);
        let connection = Connection::new(outbox);
        connection.open_run(1);
        let close = async {
            sent.recv().await.unwrap();
            connection.close_run(1);
        };
        let (in_flight, ()) = tokio::join!(connection.call::<()>(1, HostCall::Heartbeat), close);
        let later = connection.call::<()>(1, HostCall::Heartbeat).await;
        for result in [in_flight, later] {
            let problem = result.unwrap_err().message;
            assert!(problem.contains("the run has ended"), "{problem}");
        }
        assert!(sent.try_recv().is_err(), "the call of a closed run was sent");
    }
}
