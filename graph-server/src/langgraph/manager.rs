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
mod live_run;
mod protocol_events;
mod refresh;
mod schedule;
mod thread_events;
mod thread_feed;

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
};

use tokio::sync::{Notify, Semaphore};
use uuid::Uuid;

use self::schedule::Schedule;
pub(super) use self::{
    cancellation::{CancelAction, Cancellation},
    live_run::{LiveRun, RunResult},
    protocol_events::ProtocolEvents,
    thread_events::ThreadEvents,
    thread_feed::ThreadFeed,
};
use super::{
    any_graph::AnyGraph,
    database::Database,
    error::{ApiError, ApiResult},
    graphs::Graphs,
    records::{Run, Thread},
    webhook::Webhooks,
};

/// Maximum number of runs that execute concurrently.
const MAX_CONCURRENT: usize = 256;

/// Manages the runs of all threads.
#[derive(Debug)]
pub(super) struct Manager {
    pub(super) graphs: Graphs,
    pub(super) database: Database,
    pub(super) webhooks: Webhooks,
    /// Wakes the timer of the crons when a cron was changed.
    pub(super) crons_changed: Arc<Notify>,
    schedule: Mutex<Schedule>,
    slots: Semaphore,
    shutting_down: AtomicBool,
}

impl Manager {
    /// Opens the database at `path`.
    pub(super) fn open(
        graphs: Graphs,
        path: &Path,
        webhooks: Webhooks,
    ) -> rusqlite::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            graphs,
            database: Database::open(path)?,
            webhooks,
            crons_changed: Arc::default(),
            schedule: Mutex::default(),
            slots: Semaphore::new(MAX_CONCURRENT),
            shutting_down: AtomicBool::new(false),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a run that is active or ended recently.
    pub(super) fn live(&self, run: Uuid) -> Option<Arc<LiveRun>> {
        self.lock().live.get(&run).cloned()
    }

    /// Returns whether a thread has active runs.
    pub(super) fn is_busy(&self, thread: Uuid) -> bool {
        self.lock().queues.contains_key(&thread)
    }

    /// Returns the events of a thread.
    pub(super) fn feed(&self, thread: Uuid) -> Arc<ThreadFeed> {
        self.lock().feed(thread)
    }

    /// Drops the events of a thread that was never created, if no one else reads them.
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

    /// Changes a thread. Changes of the same thread exclude each other, so none is lost.
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
