//! The threads that a database handle and its clones have leased, and the session that holds their locks.
//!
//! A lease is released in the background, by a round trip to the server. Until the release has finished, the thread is
//! busy for database handles of other processes. Other handles of this process wait for the release.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use deadpool_postgres::ClientWrapper;
use graph_core::checkpoint::CheckpointError;
use tokio::{runtime::Handle, sync::watch};

/// Delay between attempts to reacquire a lock that the server still assigns to a lost session.
const REACQUIRE_INTERVAL: Duration = Duration::from_secs(1);

/// The threads that database handles of this process are releasing. Each channel closes once its release has finished.
static RELEASING: Mutex<Vec<(String, watch::Receiver<()>)>> = Mutex::new(Vec::new());

/// Adds a thread that is being released.
pub(super) fn add_releasing(thread: &str, released: watch::Receiver<()>) {
    let mut releasing = RELEASING.lock().unwrap_or_else(PoisonError::into_inner);
    releasing.retain(|(_, released)| released.has_changed().is_ok());
    releasing.push((thread.to_owned(), released));
}

/// Returns the releases of a thread that have not finished. They may belong to a thread of the same name in another
/// database.
pub(super) fn releasing(thread: &str) -> Vec<watch::Receiver<()>> {
    let releasing = RELEASING.lock().unwrap_or_else(PoisonError::into_inner);
    let is_pending = |(name, released): &&(String, watch::Receiver<()>)| {
        name == thread && released.has_changed().is_ok()
    };
    releasing.iter().filter(is_pending).map(|(_, released)| released.clone()).collect()
}

/// The threads that a database handle and its clones have leased.
pub(super) struct Leases {
    // A tokio mutex, because one caller reconnects while the others wait.
    pub(super) session: tokio::sync::Mutex<Option<Session>>,
    // A std mutex, because it is only locked briefly.
    states: Mutex<HashMap<String, LeaseState>>,
    /// The runtime on which the database was opened.
    pub(super) runtime: Handle,
}

/// The session on the server that holds the locks of the leased threads.
pub(super) struct Session {
    pub(super) client: Arc<ClientWrapper>,
    /// Leased threads, each with its token, whose locks this session does not hold yet. The usual reason is that the
    /// server has not yet noticed the loss of the previous session.
    pub(super) missing: Vec<(String, i64)>,
    pub(super) last_attempt: Option<Instant>,
}

impl Session {
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Returns whether it is time to try to reacquire the missing locks.
    pub(super) fn should_reacquire(&self) -> bool {
        !self.missing.is_empty()
            && self.last_attempt.is_none_or(|it| it.elapsed() >= REACQUIRE_INTERVAL)
    }
}

pub(super) enum LeaseState {
    Acquiring,
    Held(i64),
    /// The lease is being released. The channel closes once the release has finished.
    Releasing(watch::Receiver<()>),
}

impl Leases {
    /// Creates a value without leases. Panics if it is called outside a tokio runtime.
    pub(super) fn new() -> Self {
        Self {
            session: tokio::sync::Mutex::default(),
            states: Mutex::default(),
            runtime: Handle::current(),
        }
    }

    /// Returns the lease token of a thread, if this database handle holds the thread's lease.
    pub(super) fn token(&self, thread: &str) -> Option<i64> {
        match self.lock().get(thread)? {
            LeaseState::Held(token) => Some(*token),
            LeaseState::Acquiring | LeaseState::Releasing(_) => None,
        }
    }

    /// Claims a thread for one caller among the clones of this database handle. Fails with [`CheckpointError::Busy`] if
    /// one of the clones has already leased or claimed it. If the thread is being released, waits for the release.
    pub(super) async fn claim(&self, thread: &str) -> Result<(), CheckpointError> {
        loop {
            let mut releasing = {
                let mut states = self.lock();
                match states.get(thread) {
                    Some(LeaseState::Acquiring | LeaseState::Held(_)) => {
                        return Err(CheckpointError::Busy { thread: thread.to_owned() });
                    }
                    Some(LeaseState::Releasing(releasing)) => releasing.clone(),
                    None => {
                        states.insert(thread.to_owned(), LeaseState::Acquiring);
                        return Ok(());
                    }
                }
            };
            // `changed` returns an error once the sender is dropped, which is what we wait for.
            let _ = releasing.changed().await;
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<String, LeaseState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").field("held", &self.lock().len()).finish_non_exhaustive()
    }
}
