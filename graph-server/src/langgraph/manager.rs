//! Runs: their queues, their execution and their events.
//!
//! The runs of a thread execute one after the other, in the order in which they were created. Runs of different threads
//! execute concurrently, up to a limit. The queue, which is in the storage, determines which run executes next.
//!
//! A run is stored before its request is answered. Runs that were active when a server was killed are executed again
//! when it restarts, or by another replica: each continues from the last checkpoint that it stored.

mod cancel;
mod create;
mod create_thread;
mod delete_thread;
mod dispatch;
mod execute;
mod expiry;
mod finish;
mod leases;
mod live_run;
mod live_runs;
mod metadata_lock;
mod protocol_events;
mod record;
mod refresh;
mod repair;
mod replica;
mod reservation;
mod start;
mod stored_events;
#[cfg(test)]
mod test_records;
mod thread_events;
mod thread_feed;
mod webhook_delivery;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    sync::{Notify, Semaphore, watch},
    time::sleep,
};
use uuid::Uuid;

use self::live_runs::LiveRuns;
pub(super) use self::{
    live_run::LiveRun,
    protocol_events::ProtocolEvents,
    thread_events::{ThreadEvents, ThreadSelection},
    thread_feed::ThreadFeed,
};
use super::{
    any_graph::AnyGraph,
    database::Database,
    document::{from_data, to_row},
    error::{ApiError, ApiResult},
    graphs::Graphs,
    records::{Run, Thread},
    storage::{EventLog, Notice, RunQueue, SharedEvents, Storage, ThreadChange, ThreadEntry},
    view::View,
    webhook::Webhooks,
};
use crate::http::Metrics;

/// First delay between attempts to change or reserve a thread that is locked. Each delay is twice as long as the
/// previous one.
const LOCK_RETRY: Duration = Duration::from_millis(5);
/// Longest delay between attempts to change or reserve a thread.
const MAX_LOCK_RETRY: Duration = Duration::from_millis(500);

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
    /// W3C trace context of the request, which its runs inherit.
    pub(super) trace_parent: Option<String>,
    /// Wakes the timer when a cron or the time to live of a thread changes.
    pub(super) timer_changed: Arc<Notify>,
    queue: Arc<dyn RunQueue>,
    event_log: Arc<dyn EventLog>,
    /// Notices and leases of all replicas. `None` if no other process uses the storage.
    shared_events: Option<Arc<dyn SharedEvents>>,
    live_runs: Arc<Mutex<LiveRuns>>,
    /// One permit for each additional run that this process may execute.
    slots: Arc<Semaphore>,
    shutting_down: Arc<watch::Sender<bool>>,
}

impl Manager {
    /// Creates a manager that executes up to `max_concurrent` runs at a time.
    pub(super) fn new(
        graphs: Graphs,
        storage: Storage,
        webhooks: Webhooks,
        max_concurrent: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            graphs: Arc::new(graphs),
            database: Database::new(storage.documents),
            webhooks,
            metrics: Metrics::default(),
            trace_parent: None,
            timer_changed: Arc::default(),
            queue: storage.queue,
            event_log: storage.event_log,
            shared_events: storage.shared_events,
            live_runs: Arc::default(),
            slots: Arc::new(Semaphore::new(max_concurrent)),
            shutting_down: Arc::new(watch::Sender::new(false)),
        })
    }

    /// Returns the manager as a client with this view sees it.
    pub(super) fn with_view(&self, view: View) -> Arc<Self> {
        Arc::new(Self { database: self.database.with_view(view), ..self.clone() })
    }

    /// Returns the manager for a request with this trace context.
    pub(super) fn with_trace_parent(&self, trace_parent: String) -> Arc<Self> {
        Arc::new(Self { trace_parent: Some(trace_parent), ..self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, LiveRuns> {
        self.live_runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the server is shutting down, so that other replicas continue its runs.
    pub(super) fn is_shutting_down(&self) -> bool {
        *self.shutting_down.borrow()
    }

    /// Returns once the server is shutting down.
    async fn shutting_down(&self) {
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = self.shutting_down.subscribe().wait_for(|it| *it).await;
    }

    /// Returns a run that the client sees and whose events can be read: an active run, or one with events in memory or
    /// in the storage.
    pub(super) async fn live(&self, run: Uuid) -> ApiResult<Option<Arc<LiveRun>>> {
        let live = self.live_stored(run).await?;
        let Some(live) = live.filter(|it| it.is_visible(self.database.view())) else {
            return Ok(None);
        };
        Ok(self.sees_runs_of(live.facts.thread).await?.then_some(live))
    }

    /// Returns whether the client may see the runs of a thread: it sees the thread, or the thread does not exist.
    async fn sees_runs_of(&self, thread: Uuid) -> ApiResult<bool> {
        // The owner of a run is that of its thread, so the thread is checked only if its metadata determines who sees
        // it.
        match self.database.view().required::<Thread>() {
            Some(_) => Ok(!self.database.is_protected::<Thread>(&thread.to_string()).await?),
            None => Ok(true),
        }
    }

    /// Fails if a thread with this id exists that the client does not see.
    pub(super) async fn check_access(&self, thread: Uuid) -> ApiResult<()> {
        match self.database.is_protected::<Thread>(&thread.to_string()).await? {
            true => Err(no_thread(thread)),
            false => Ok(()),
        }
    }

    /// Returns whether a thread has runs that execute or wait in its queue.
    pub(super) async fn is_busy(&self, thread: Uuid) -> ApiResult<bool> {
        Ok(self.queue.active_runs(Some(thread)).await?.iter().any(|it| it.due))
    }

    /// Returns the event feed of a thread, and creates it if necessary.
    pub(super) async fn feed(&self, thread: Uuid) -> ApiResult<Arc<ThreadFeed>> {
        let feed = self.lock().feed(thread);
        // All clients share the feed, so it contains the runs that this client does not see too.
        self.with_view(View::default()).load_feed(thread, &feed).await?;
        Ok(feed)
    }

    /// Sends the state of a thread that was edited to the readers of its events.
    pub(super) async fn publish_state(&self, thread: Uuid, state: Value) {
        match &self.shared_events {
            None => self.add_state(thread, state).await,
            // This replica receives its own notice too.
            Some(shared) => {
                if let Err(error) = shared.announce(Notice::StateEdited(thread)).await {
                    tracing::warn!(%thread, %error, "cannot announce the edit of a thread");
                }
            }
        }
    }

    /// Adds an edited state to the event feed of a thread in this process.
    async fn add_state(&self, thread: Uuid, state: Value) {
        // If the owner cannot be read, only clients that see the objects of all owners receive the state.
        let id = thread.to_string();
        let owner = self.database.owner_of::<Thread>(&id).await.ok().flatten().flatten();
        let stored = self.database.get::<Thread>(&id).await.ok().flatten();
        let metadata = stored.map(|it| it.metadata).unwrap_or_default();
        self.lock().add_state(thread, state, owner, metadata);
    }

    /// Drops the event feed of a thread that was never created, or whose events can be read from shared storage, unless
    /// the feed is in use.
    pub(super) async fn release_feed(&self, thread: Uuid) {
        let stored = self.database.get::<Thread>(&thread.to_string()).await;
        if self.shared_events.is_some() || !stored.is_ok_and(|it| it.is_some()) {
            self.lock().release_feed(thread);
        }
    }

    /// Returns a thread.
    pub(super) async fn thread(&self, id: Uuid) -> ApiResult<Thread> {
        self.database.get(&id.to_string()).await?.ok_or_else(|| no_thread(id))
    }

    /// Returns a thread that is locked for a change, if it exists. Fails if the client does not see it: another client
    /// may have changed it since the client's access was checked.
    fn locked_thread(&self, id: Uuid, entry: &ThreadEntry) -> ApiResult<Option<Thread>> {
        let thread: Option<Thread> = entry.document.as_deref().map(from_data).transpose()?;
        let (view, owner) = (self.database.view(), entry.owner.as_deref());
        let is_hidden = |it: &Thread| !view.sees::<Thread>(owner, &it.metadata);
        match thread.as_ref().is_some_and(is_hidden) {
            true => Err(no_thread(id)),
            false => Ok(thread),
        }
    }

    /// Changes a thread. Concurrent changes are serialised, so that none is lost. A change of the metadata waits while
    /// the metadata is locked.
    pub(super) async fn change_thread(
        &self,
        id: Uuid,
        change: impl Fn(&mut Thread) + Send + Sync,
    ) -> ApiResult<Thread> {
        let mut delay = LOCK_RETRY;
        loop {
            let mut changed = None;
            let mut decide = |entry: ThreadEntry| {
                let mut thread = self.locked_thread(id, &entry)?.ok_or_else(|| no_thread(id))?;
                let metadata = thread.metadata.clone();
                change(&mut thread);
                if entry.metadata_locked && thread.metadata != metadata {
                    return Ok(ThreadChange::default());
                }
                let put = vec![to_row(&thread, None)?];
                changed = Some(thread);
                Ok(ThreadChange { put, ..ThreadChange::default() })
            };
            self.queue.change_thread(id, &mut decide).await?;
            if let Some(changed) = changed {
                return Ok(changed);
            }
            sleep(delay).await;
            delay = (delay * 2).min(MAX_LOCK_RETRY);
        }
    }

    /// Returns a run of a thread.
    pub(super) async fn run(&self, thread: Uuid, id: Uuid) -> ApiResult<Run> {
        let run = self.database.get::<Run>(&id.to_string()).await?;
        let is_visible = self.sees_runs_of(thread).await?;
        run.filter(|it| is_visible && it.thread_id == thread).ok_or_else(|| {
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

fn no_thread(id: Uuid) -> ApiError {
    ApiError::not_found(format!("thread {id} does not exist"))
}
