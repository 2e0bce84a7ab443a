//! The guest's end of the channel: what it says and what it asks.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::protocol::{
    self, Kind, decode, frame,
    message::{Ask, Fault, FaultCode, GraphEvent, Wish},
};

/// How many events a graph may send before the host has read any; the host counts along.
pub(crate) const EVENT_WINDOW: usize = 256;

/// The guest's end of the channel. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Line {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    outbox: mpsc::Sender<Vec<u8>>,
    // Std mutexes: held for a moment, never over an await.
    waiting: Mutex<BTreeMap<u64, oneshot::Sender<Result<Vec<u8>, Fault>>>>,
    credits: Mutex<BTreeMap<u64, Arc<Semaphore>>>,
    next: AtomicU64,
}

impl Line {
    pub(super) fn new(outbox: mpsc::Sender<Vec<u8>>) -> Self {
        let shared = Shared {
            outbox,
            waiting: Mutex::default(),
            credits: Mutex::default(),
            next: AtomicU64::new(1),
        };
        Self { shared: Arc::new(shared) }
    }

    pub(super) async fn send(&self, kind: Kind, id: u64, payload: &[u8]) {
        // A writer that is gone means that the host is; the reader sees that too and ends the agent.
        let _ = self.shared.outbox.send(frame::write(kind, id, payload)).await;
    }

    /// Asks the host something for the run that this question of the host's started.
    pub(super) async fn ask<T: DeserializeOwned>(&self, run: u64, what: Wish) -> Result<T, Fault> {
        let terminal = |error| Fault::new(FaultCode::Terminal, error);
        let payload = protocol::encode(&Ask { run, what }).map_err(terminal)?;
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        lock(&self.shared.waiting).insert(id, answer);
        self.send(Kind::Request, id, &payload).await;
        let gone = |_| Fault::new(FaultCode::Failed, "the host is gone");
        decode("answer", &answered.await.map_err(gone)??).map_err(terminal)
    }

    /// An answer came.
    pub(super) fn answered(&self, id: u64, answer: Result<Vec<u8>, Fault>) {
        if let Some(waiting) = lock(&self.shared.waiting).remove(&id) {
            let _ = waiting.send(answer);
        }
    }

    /// Sends an event once the host has room for it.
    pub(super) async fn event(&self, run: u64, event: &GraphEvent) -> Result<(), Fault> {
        let terminal = |error| Fault::new(FaultCode::Terminal, error);
        let payload = protocol::encode(event).map_err(terminal)?;
        let credit = self.credits(run);
        let permit = credit.acquire().await;
        permit.map_err(|_| Fault::new(FaultCode::Refused, "the run was cancelled"))?.forget();
        self.send(Kind::Event, run, &payload).await;
        Ok(())
    }

    /// The host has room for so many more events.
    pub(super) fn credit(&self, run: u64, events: u32) {
        let credit = self.credits(run);
        // More than this would be the host's mistake, and adding it would panic.
        if credit.available_permits() < Semaphore::MAX_PERMITS - events as usize {
            credit.add_permits(events as usize);
        }
    }

    pub(super) fn close_credit(&self, run: u64) {
        lock(&self.shared.credits).remove(&run);
    }

    /// Nobody waits for answers or credit any more: the host that would have given them is another one now.
    pub(super) fn forget(&self) {
        lock(&self.shared.waiting).clear();
        lock(&self.shared.credits).clear();
    }

    fn credits(&self, run: u64) -> Arc<Semaphore> {
        let mut credits = lock(&self.shared.credits);
        credits.entry(run).or_insert_with(|| Arc::new(Semaphore::new(EVENT_WINDOW))).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
