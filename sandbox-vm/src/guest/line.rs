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
    self, EVENT_WINDOW, Kind, MAX_ASKED, MAX_EVENT, decode, frame,
    message::{Ask, Fault, FaultCode, GraphEvent, Wish},
    shape,
};

/// How many questions may be under way at once; further ones wait. A large one takes the place of several, so that all
/// of them together never take more of the host's memory than it allows.
const ASK_WINDOW: u32 = 256;

/// How much memory of the host's a question may take for each place.
const PLACE: u64 = MAX_ASKED / ASK_WINDOW as u64;

/// The guest's end of the channel. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Line {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    outbox: mpsc::Sender<Vec<u8>>,
    // Std mutexes: held for a moment, never over an await.
    waiting: Mutex<BTreeMap<u64, Question>>,
    credits: Mutex<BTreeMap<u64, Arc<Semaphore>>>,
    /// Where whoever asks for a run waits for its turn.
    askers: Mutex<BTreeMap<u64, mpsc::UnboundedSender<Turn>>>,
    places: Arc<Semaphore>,
    next: AtomicU64,
}

/// Lets one go on who wants to ask something.
pub(super) type Turn = oneshot::Sender<()>;

/// A question under way.
#[derive(Debug)]
struct Question {
    run: u64,
    answer: oneshot::Sender<Result<Vec<u8>, Fault>>,
    /// Taken until the answer comes, though nobody may wait for it any more: the host still works on it.
    _places: OwnedSemaphorePermit,
}

impl Line {
    pub(super) fn new(outbox: mpsc::Sender<Vec<u8>>) -> Self {
        let shared = Shared {
            outbox,
            waiting: Mutex::default(),
            credits: Mutex::default(),
            askers: Mutex::default(),
            places: Arc::new(Semaphore::new(ASK_WINDOW as usize)),
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
        let gone = || Fault::new(FaultCode::Failed, "the host is gone");
        let payload = protocol::encode(&Ask { run, what }).map_err(terminal)?;
        let memory = memory_within(&payload, MAX_ASKED, "what is asked of the host or stored")?;
        self.turn(run).await;
        let places = u32::try_from(memory.div_ceil(PLACE)).unwrap_or(ASK_WINDOW);
        let places = self.shared.places.clone().acquire_many_owned(places).await;
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let question = Question { run, answer, _places: places.map_err(|_| gone())? };
        // Whoever is dropped while there is no room to send has asked nothing.
        let room = self.shared.outbox.reserve().await.map_err(|_| gone())?;
        lock(&self.shared.waiting).insert(id, question);
        room.send(frame::write(Kind::Request, id, &payload));
        decode("answer", &answered.await.map_err(|_| gone())??).map_err(terminal)
    }

    /// Those who want to ask something for a run: each is let through once all events so far are on their way.
    ///
    /// So a host that is asked has heard of all that came before, though the guest die with the question.
    pub(super) fn askers(&self, run: u64) -> mpsc::UnboundedReceiver<Turn> {
        let (sender, askers) = mpsc::unbounded_channel();
        lock(&self.shared.askers).insert(run, sender);
        askers
    }

    async fn turn(&self, run: u64) {
        let askers = lock(&self.shared.askers).get(&run).cloned();
        let (turn, ours) = oneshot::channel();
        if askers.is_some_and(|it| it.send(turn).is_ok()) {
            // Where it is dropped there are no events any more.
            let _ = ours.await;
        }
    }

    /// An answer came.
    pub(super) fn answered(&self, id: u64, answer: Result<Vec<u8>, Fault>) {
        if let Some(question) = lock(&self.shared.waiting).remove(&id) {
            let _ = question.answer.send(answer);
        }
    }

    /// Sends an event once the host has room for it.
    pub(super) async fn event(&self, run: u64, event: &GraphEvent) -> Result<(), Fault> {
        let terminal = |error| Fault::new(FaultCode::Terminal, error);
        let payload = protocol::encode(event).map_err(terminal)?;
        memory_within(&payload, MAX_EVENT, "an event; ask for other modes, or emit less at once")?;
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

    /// A run is over: the host gives it no more answers and no more credit.
    pub(super) fn over(&self, run: u64) {
        lock(&self.shared.waiting).retain(|_, it| it.run != run);
        lock(&self.shared.credits).remove(&run);
        lock(&self.shared.askers).remove(&run);
    }

    /// Nobody waits for answers or credit any more: the host that would have given them is another one now.
    pub(super) fn forget(&self) {
        lock(&self.shared.waiting).clear();
        lock(&self.shared.credits).clear();
        lock(&self.shared.askers).clear();
    }

    fn credits(&self, run: u64) -> Arc<Semaphore> {
        let mut credits = lock(&self.shared.credits);
        credits.entry(run).or_insert_with(|| Arc::new(Semaphore::new(EVENT_WINDOW))).clone()
    }
}

/// How much memory of the host's a payload may take, if it is no more than that.
fn memory_within(payload: &[u8], limit: u64, what: &str) -> Result<u64, Fault> {
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
