//! Runs: their queues, their execution and their events.
//!
//! The runs of a thread execute one after the other, in the order in which they were created. A worker task exists for
//! each thread that has active runs. Runs of different threads execute concurrently, up to a limit.
//!
//! A run is stored before its request is answered. Runs that were active when a server was killed are executed again
//! when it restarts: each continues from the last checkpoint that it stored.

mod cancel;
mod cancellation;
mod create;
mod execute;
mod expiry;
mod live_run;
mod protocol_events;
mod refresh;
mod schedule;
mod thread_events;
mod thread_feed;

use std::{
    fs::{File, TryLockError},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
};

use serde_json::Value;
use tokio::sync::{Notify, Semaphore};
use uuid::Uuid;

use self::schedule::Schedule;
pub(super) use self::{
    cancellation::{CancelAction, Cancellation},
    live_run::{LiveRun, RunResult},
    protocol_events::ProtocolEvents,
    thread_events::{ThreadEvents, ThreadSelection},
    thread_feed::ThreadFeed,
};
use super::{
    any_graph::AnyGraph,
    database::{Database, View},
    error::{ApiError, ApiResult},
    graphs::Graphs,
    records::{Run, Thread},
    webhook::Webhooks,
};
use crate::http::Metrics;

/// Maximum number of runs that execute concurrently.
const MAX_CONCURRENT: usize = 256;

/// Manages the runs of all threads.
///
/// Each request uses its own copy, whose database shows only the objects that the client sees. All copies share the
/// same runs.
#[derive(Debug, Clone)]
pub(super) struct Manager {
    pub(super) graphs: Arc<Graphs>,
    pub(super) database: Database,
    pub(super) webhooks: Webhooks,
    pub(super) metrics: Metrics,
    /// Wakes the timer when a cron or the time to live of a thread was changed.
    pub(super) timer_changed: Arc<Notify>,
    schedule: Arc<Mutex<Schedule>>,
    slots: Arc<Semaphore>,
    shutting_down: Arc<AtomicBool>,
    /// Locked while this process uses the database, so that no other process executes the same runs.
    lock_file: Option<Arc<File>>,
}

/// The error returned when the manager cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error("{path}: {cause}")]
    Database { path: String, cause: rusqlite::Error },
    #[error("cannot create or lock the file {path}: {cause}")]
    LockFile { path: String, cause: std::io::Error },
    #[error("{path} is locked by another server; stop that server or use another database")]
    InUse { path: String },
}

/// Creates and locks the file at `path`.
fn create_locked(path: &Path) -> Result<File, OpenError> {
    let shown = path.display().to_string();
    let failed = |cause| OpenError::LockFile { path: shown.clone(), cause };
    let file = File::create(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: shown }),
        Err(TryLockError::Error(cause)) => Err(failed(cause)),
    }
}

impl Manager {
    /// Opens the database at `path`.
    pub(super) fn open(
        graphs: Graphs,
        path: &Path,
        webhooks: Webhooks,
    ) -> Result<Arc<Self>, OpenError> {
        let lock_file = match path.to_str() {
            // No other process can open a database in memory.
            Some(":memory:") => None,
            _ => Some(Arc::new(create_locked(&path.with_extension("lock"))?)),
        };
        Ok(Arc::new(Self {
            lock_file,
            graphs: Arc::new(graphs),
            database: Database::open(path)
                .map_err(|cause| OpenError::Database { path: path.display().to_string(), cause })?,
            webhooks,
            metrics: Metrics::default(),
            timer_changed: Arc::default(),
            schedule: Arc::default(),
            slots: Arc::new(Semaphore::new(MAX_CONCURRENT)),
            shutting_down: Arc::default(),
        }))
    }

    /// Releases the lock file, so that another process can use the database.
    fn unlock(&self) {
        if let Some(Err(error)) = self.lock_file.as_ref().map(|it| it.unlock()) {
            tracing::warn!(%error, "cannot release the lock file of the database");
        }
    }

    /// Returns the manager as a client with this view sees it.
    pub(super) fn with_view(&self, view: View) -> Arc<Self> {
        Arc::new(Self { database: self.database.with_view(view), ..self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a run that is active or ended recently.
    pub(super) fn live(&self, run: Uuid) -> Option<Arc<LiveRun>> {
        self.lock().live.get(&run).filter(|it| self.sees(it)).cloned()
    }

    /// Returns whether the client sees a run.
    fn sees(&self, run: &LiveRun) -> bool {
        self.database.view().sees(run.owner.as_deref())
    }

    /// Fails if a thread with this id exists that the client does not see.
    pub(super) fn check_access(&self, thread: Uuid) -> ApiResult<()> {
        match self.database.is_hidden::<Thread>(&thread.to_string())? {
            true => Err(ApiError::not_found(format!("thread {thread} does not exist"))),
            false => Ok(()),
        }
    }

    /// Returns whether a thread has active runs.
    pub(super) fn is_busy(&self, thread: Uuid) -> bool {
        self.lock().queues.contains_key(&thread)
    }

    /// Returns the event feed of a thread, and creates it if necessary.
    pub(super) fn feed(&self, thread: Uuid) -> Arc<ThreadFeed> {
        self.lock().feed(thread)
    }

    /// Sends the state of a thread that was edited to the readers of its events.
    pub(super) fn publish_state(&self, thread: Uuid, state: Value) {
        if let Some(feed) = self.lock().read_feed(thread) {
            feed.add_update(state);
        }
    }

    /// Drops the event feed of a thread that was never created, unless a client reads it.
    pub(super) fn release_feed(&self, thread: Uuid) {
        let exists = self.database.get::<Thread>(&thread.to_string()).is_ok_and(|it| it.is_some());
        if !exists {
            self.lock().release_feed(thread);
        }
    }

    /// Returns a thread.
    pub(super) fn thread(&self, id: Uuid) -> ApiResult<Thread> {
        self.database
            .get(&id.to_string())?
            .ok_or_else(|| ApiError::not_found(format!("thread {id} does not exist")))
    }

    /// Changes a thread. Concurrent changes are serialized, so that none is lost.
    pub(super) fn change_thread(
        &self,
        id: Uuid,
        change: impl FnOnce(&mut Thread),
    ) -> ApiResult<Thread> {
        let _exclusive = self.lock();
        let mut thread = self.thread(id)?;
        change(&mut thread);
        self.database.put(&thread)?;
        Ok(thread)
    }

    /// Returns a run of a thread.
    pub(super) fn run(&self, thread: Uuid, id: Uuid) -> ApiResult<Run> {
        let run = self.database.get::<Run>(&id.to_string())?;
        run.filter(|it| it.thread_id == thread).ok_or_else(|| {
            ApiError::not_found(format!("run {id} does not exist on thread {thread}"))
        })
    }

    /// Returns a graph by its name.
    pub(super) fn graph(&self, name: &str) -> ApiResult<&Arc<dyn AnyGraph>> {
        let missing =
            || ApiError::not_found(format!("graph `{name}` does not exist on this server"));
        self.graphs.get(name).ok_or_else(missing)
    }
}
