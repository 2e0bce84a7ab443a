//! The guest's end of the channel: what it says and what it asks.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::protocol::{
    self, EVENT_WINDOW, Kind, MAX_EVENT_MEMORY, MAX_PENDING_CALL_MEMORY, decode, frame,
    message::{Fault, FaultCode, GraphEvent, HostCall, HostCallRequest},
    shape,
};

/// How many questions may be under way at once; further ones wait. A large one takes the place of several, so that all
/// of them together never take more of the host's memory than it allows.
const CALL_WINDOW: u32 = 256;

/// How much memory of the host's a question may take for each place.
const MEMORY_PER_PERMIT: u64 = MAX_PENDING_CALL_MEMORY / CALL_WINDOW as u64;

/// The guest's end of the channel. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    outbox: mpsc::Sender<Vec<u8>>,
    // Std mutexes: held for a moment, never over an await.
    pending: Mutex<BTreeMap<u64, PendingCall>>,
    credits: Mutex<BTreeMap<u64, Arc<Semaphore>>>,
    /// Where whoever asks for a run waits for its turn.
    flush_requests: Mutex<BTreeMap<u64, mpsc::UnboundedSender<FlushAck>>>,
    permits: Arc<Semaphore>,
    next: AtomicU64,
}

/// Lets one go on who wants to ask something.
pub(super) type FlushAck = oneshot::Sender<()>;

/// A question under way.
#[derive(Debug)]
struct PendingCall {
    run: u64,
    reply: oneshot::Sender<Result<Vec<u8>, Fault>>,
    /// Taken until the answer comes, though nobody may wait for it any more: the host still works on it.
    _permits: OwnedSemaphorePermit,
}

impl Connection {
    pub(super) fn new(outbox: mpsc::Sender<Vec<u8>>) -> Self {
        let shared = Shared {
            outbox,
            pending: Mutex::default(),
            credits: Mutex::default(),
            flush_requests: Mutex::default(),
            permits: Arc::new(Semaphore::new(CALL_WINDOW as usize)),
            next: AtomicU64::new(1),
        };
        Self { shared: Arc::new(shared) }
    }

    pub(super) async fn send(&self, kind: Kind, id: u64, payload: &[u8]) {
        // A writer that is disconnected means that the host is; the reader sees that too and ends the agent.
        let _ = self.shared.outbox.send(frame::encode(kind, id, payload)).await;
    }

    /// Asks the host something for the run that this question of the host's started.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        run: u64,
        call: HostCall,
    ) -> Result<T, Fault> {
        let terminal = |error| Fault::new(FaultCode::Terminal, error);
        let disconnected = || Fault::new(FaultCode::Failed, "the host is disconnected");
        let payload = protocol::encode(&HostCallRequest { run, call }).map_err(terminal)?;
        let memory =
            check_memory(&payload, MAX_PENDING_CALL_MEMORY, "what is asked of the host or stored")?;
        self.flush_events(run).await;
        let permits = u32::try_from(memory.div_ceil(MEMORY_PER_PERMIT)).unwrap_or(CALL_WINDOW);
        let permits = self.shared.permits.clone().acquire_many_owned(permits).await;
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (reply, received) = oneshot::channel();
        let pending = PendingCall { run, reply, _permits: permits.map_err(|_| disconnected())? };
        // Whoever is dropped while there is no room to send has asked nothing.
        let slot = self.shared.outbox.reserve().await.map_err(|_| disconnected())?;
        lock(&self.shared.pending).insert(id, pending);
        slot.send(frame::encode(Kind::Request, id, &payload));
        decode("reply", &received.await.map_err(|_| disconnected())??).map_err(terminal)
    }

    /// Those who want to ask something for a run: each is let through once all events so far are on their way.
    ///
    /// So a host that is asked has heard of all that came before, though the guest die with the question.
    pub(super) fn flush_requests(&self, run: u64) -> mpsc::UnboundedReceiver<FlushAck> {
        let (sender, requests) = mpsc::unbounded_channel();
        lock(&self.shared.flush_requests).insert(run, sender);
        requests
    }

    async fn flush_events(&self, run: u64) {
        let requests = lock(&self.shared.flush_requests).get(&run).cloned();
        let (ack, flushed) = oneshot::channel();
        if requests.is_some_and(|it| it.send(ack).is_ok()) {
            // Where it is dropped there are no events any more.
            let _ = flushed.await;
        }
    }

    /// An answer came.
    pub(super) fn deliver_reply(&self, id: u64, reply: Result<Vec<u8>, Fault>) {
        if let Some(pending) = lock(&self.shared.pending).remove(&id) {
            let _ = pending.reply.send(reply);
        }
    }

    /// Sends an event once the host has room for it.
    pub(super) async fn send_event(&self, run: u64, event: &GraphEvent) -> Result<(), Fault> {
        let terminal = |error| Fault::new(FaultCode::Terminal, error);
        let payload = protocol::encode(event).map_err(terminal)?;
        check_memory(
            &payload,
            MAX_EVENT_MEMORY,
            "an event; ask for other modes, or emit less at once",
        )?;
        let credit = self.credit_of(run);
        let permit = credit.acquire().await;
        permit.map_err(|_| Fault::new(FaultCode::Refused, "the run was cancelled"))?.forget();
        self.send(Kind::Event, run, &payload).await;
        Ok(())
    }

    /// The host has room for so many more events.
    pub(super) fn add_credit(&self, run: u64, events: u32) {
        let credit = self.credit_of(run);
        // More than this would be the host's mistake, and adding it would panic.
        if credit.available_permits() < Semaphore::MAX_PERMITS - events as usize {
            credit.add_permits(events as usize);
        }
    }

    /// A run is over: the host gives it no more answers and no more credit.
    pub(super) fn close_run(&self, run: u64) {
        lock(&self.shared.pending).retain(|_, it| it.run != run);
        lock(&self.shared.credits).remove(&run);
        lock(&self.shared.flush_requests).remove(&run);
    }

    /// Nobody waits for answers or credit any more: the host that would have given them is another one now.
    pub(super) fn reset(&self) {
        lock(&self.shared.pending).clear();
        lock(&self.shared.credits).clear();
        lock(&self.shared.flush_requests).clear();
    }

    fn credit_of(&self, run: u64) -> Arc<Semaphore> {
        let mut credits = lock(&self.shared.credits);
        credits.entry(run).or_insert_with(|| Arc::new(Semaphore::new(EVENT_WINDOW))).clone()
    }
}

/// How much memory of the host's a payload may take, if it is no more than that.
fn check_memory(payload: &[u8], limit: u64, what: &str) -> Result<u64, Fault> {
    let memory = shape::check(payload).map_err(|it| Fault::new(FaultCode::Terminal, it))?;
    if memory <= limit {
        return Ok(memory);
    }
    let problem = format!("the host would need {memory} bytes, and gives {limit}, for {what}");
    Err(Fault::new(FaultCode::Terminal, problem))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
