//! Starts, watches, cancels and resumes runs. Independent of HTTP.
//!
//! A run is *active* while it is queued or executing. Active runs are kept in one map; the status of all other runs
//! is read from the registry. A run is inserted into the map before the registry marks it active, and is removed
//! after the registry marks it inactive. Every run is therefore always visible in at least one of the two.

mod execute;
mod reader;
mod recent_events;

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt, io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    sync::{Semaphore, watch},
    time,
};

pub use reader::{EventReader, ReadOutcome};
pub(crate) use recent_events::RecentEvents;

use crate::{
    registry::{Registry, RegistryError},
    run::{NewRun, RunEvent, RunInfo, Status, is_valid_id},
    runner::Runner,
};

/// Time that preempted runs have to release their resources.
const PREEMPTION_GRACE: Duration = Duration::from_secs(10);

/// Starts, watches, cancels and resumes runs. Cloning is cheap; clones share the same runs.
#[derive(Debug, Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

/// Admission limits of a [`Service`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Maximum number of runs that execute concurrently.
    pub concurrent: usize,
    /// Maximum number of runs that wait in the queue.
    pub queued: usize,
}

impl Default for Capacity {
    fn default() -> Self {
        Self { concurrent: 8, queued: 1000 }
    }
}

/// The error returned when an operation on a [`Service`] fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The run does not exist.
    #[error("run `{0}` does not exist")]
    UnknownRun(String),
    /// The requested run id is invalid or already in use.
    #[error("run id `{0}` is invalid or already in use")]
    InvalidId(String),
    /// The run is queued or executing.
    #[error("run `{0}` is already active")]
    AlreadyActive(String),
    /// The run is complete, so there is nothing to resume.
    #[error("run `{0}` is complete and cannot be resumed; start a new run or fork it")]
    Complete(String),
    /// The run is not active, so it cannot be cancelled.
    #[error("run `{id}` is {} and cannot be cancelled", status.name())]
    NotActive {
        /// Id of the run.
        id: String,
        /// Current status of the run.
        status: Status,
    },
    /// The queue is full. The value is the number of waiting runs.
    #[error("the queue is full (waiting runs: {0}); try again later")]
    QueueFull(usize),
    /// The server is shutting down.
    #[error("the server is shutting down; try again when it is back")]
    ShuttingDown,
    /// The registry could not be read or written.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The events of a run could not be read.
    #[error("cannot read the events of run `{id}`: {source}")]
    Events {
        /// Id of the run.
        id: String,
        /// The cause.
        source: io::Error,
    },
    /// A blocking task panicked.
    #[error("an internal task failed: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

/// State that all clones of a [`Service`] share.
pub(crate) struct Inner {
    registry: Registry,
    runner: Arc<dyn Runner>,
    capacity: Capacity,
    permits: Arc<Semaphore>,
    active: Mutex<HashMap<String, Arc<ActiveRun>>>,
    closing: watch::Sender<bool>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

/// An active run.
struct ActiveRun {
    recent: Arc<RecentEvents>,
    stop: watch::Sender<Option<Stop>>,
}

impl ActiveRun {
    /// Requests that the run stop. If several callers request it, the first reason counts.
    fn stop(&self, why: Stop) {
        self.stop.send_if_modified(|it| {
            let is_first = it.is_none();
            it.get_or_insert(why);
            is_first
        });
    }
}

/// Reason for stopping an active run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// A caller cancelled the run.
    Cancelled,
    /// The server is shutting down. The run is resumed when the server starts again.
    Preempted,
}

impl Service {
    /// Opens a service and resumes every run that was still active when the previous server stopped.
    pub async fn open(
        registry: Registry,
        runner: Arc<dyn Runner>,
        capacity: Capacity,
    ) -> Result<Self, ServiceError> {
        let inner = Arc::new(Inner {
            registry,
            runner,
            capacity,
            permits: Arc::new(Semaphore::new(capacity.concurrent.max(1))),
            active: Mutex::default(),
            closing: watch::Sender::new(false),
        });
        for run in inner.with_registry(|it| it.list_active()).await? {
            tracing::info!(run = run.id, "resuming the run after a restart");
            let active = Inner::insert(&mut inner.active_runs(), &run.id)?;
            inner.spawn(run, active);
        }
        Ok(Self { inner })
    }

    /// Starts a run. If the returned future is dropped, the run is started nevertheless.
    pub async fn start(&self, new: NewRun) -> Result<RunInfo, ServiceError> {
        let service = self.clone();
        tokio::spawn(async move { service.start_detached(new).await }).await?
    }

    async fn start_detached(&self, new: NewRun) -> Result<RunInfo, ServiceError> {
        if !is_valid_id(&new.id) {
            return Err(ServiceError::InvalidId(new.id));
        }
        let id = new.id.clone();
        let active = self.inner.admit(&id)?;
        let added = self.inner.with_registry(move |it| it.insert(&new)).await;
        match added {
            Ok(Some(run)) => {
                self.inner.spawn(run.clone(), active);
                Ok(run)
            }
            other => {
                self.inner.remove(&id);
                other.and(Err(ServiceError::InvalidId(id)))
            }
        }
    }

    /// Resumes an inactive run and passes `args` to its runner. A complete run is resumed only if
    /// [`Runner::can_continue`] allows it. If the returned future is dropped, the run is resumed nevertheless.
    pub async fn resume(&self, id: &str, args: Value) -> Result<RunInfo, ServiceError> {
        let (service, id) = (self.clone(), id.to_owned());
        tokio::spawn(async move { service.resume_detached(&id, args).await }).await?
    }

    async fn resume_detached(&self, id: &str, args: Value) -> Result<RunInfo, ServiceError> {
        self.inner.get(id).await?;
        let active = self.inner.admit(id)?;
        match self.inner.requeue(id, args).await {
            Ok(run) => {
                self.inner.spawn(run.clone(), active);
                Ok(run)
            }
            Err(error) => {
                self.inner.remove(id);
                Err(error)
            }
        }
    }

    /// Cancels a run. If the run is active, waits until nothing executes it any more. A run that is waiting for an
    /// answer can be cancelled too. Cancelled runs can be resumed.
    pub async fn cancel(&self, id: &str) -> Result<RunInfo, ServiceError> {
        let run = self.inner.get(id).await?;
        if let Some(active) = self.inner.active(id) {
            active.stop(Stop::Cancelled);
            let mut head = active.recent.watch();
            let _ = head.wait_for(|it| it.is_closed).await;
            return self.inner.get(id).await;
        }
        if run.status != Status::Waiting {
            return Err(ServiceError::NotActive { id: run.id, status: run.status });
        }
        let inner = self.inner.clone();
        tokio::spawn(async move { inner.cancel_waiting(&run.id).await }).await?
    }

    /// Returns the run with this id.
    pub async fn get(&self, id: &str) -> Result<RunInfo, ServiceError> {
        self.inner.get(id).await
    }

    /// Lists up to `limit` runs, newest first. If `before` is set, lists only runs that were created before that
    /// run.
    pub async fn list(
        &self,
        before: Option<String>,
        limit: usize,
    ) -> Result<Vec<RunInfo>, ServiceError> {
        self.inner.with_registry(move |it| it.list(before.as_deref(), limit)).await
    }

    /// Counts the runs with each status.
    pub async fn count_by_status(&self) -> Result<Vec<(Status, u64)>, ServiceError> {
        self.inner.with_registry(|it| it.count_by_status()).await
    }

    /// Fails if no new run can be accepted or if the registry cannot be read.
    pub async fn check_ready(&self) -> Result<(), ServiceError> {
        self.inner.check_room(self.inner.active_runs().len())?;
        self.count_by_status().await.map(drop)
    }

    /// Returns a reader of the run's events with sequence numbers greater than `after`.
    pub async fn read_events(&self, id: &str, after: u64) -> Result<EventReader, ServiceError> {
        self.inner.get(id).await?;
        Ok(EventReader { inner: self.inner.clone(), id: id.to_owned(), after })
    }

    /// Returns up to `limit` stored events of a run with sequence numbers greater than `after`.
    pub async fn stored_events(
        &self,
        id: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<RunEvent>, ServiceError> {
        self.inner.get(id).await?;
        self.inner.stored_events(id, after, limit).await
    }

    /// Stops accepting runs, waits up to `grace` for active runs to finish, and then preempts the remaining ones,
    /// which the next service resumes. Readers are disconnected immediately.
    pub async fn shut_down(&self, grace: Duration) {
        self.inner.closing.send_replace(true);
        let all_finished = async {
            for active in self.inner.all_active() {
                let _ = active.recent.watch().wait_for(|it| it.is_closed).await;
            }
        };
        if time::timeout(grace, all_finished).await.is_ok() {
            return;
        }
        let left = self.inner.all_active();
        tracing::info!(runs = left.len(), "preempting runs");
        for active in &left {
            active.stop(Stop::Preempted);
        }
        let all_stopped = async {
            for active in left {
                let _ = active.recent.watch().wait_for(|it| it.is_closed).await;
            }
        };
        if time::timeout(PREEMPTION_GRACE, all_stopped).await.is_err() {
            tracing::warn!("some runs did not stop in time; the next server resumes them");
        }
    }
}

impl Inner {
    fn active_runs(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<ActiveRun>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn active(&self, id: &str) -> Option<Arc<ActiveRun>> {
        self.active_runs().get(id).cloned()
    }

    fn all_active(&self) -> Vec<Arc<ActiveRun>> {
        self.active_runs().values().cloned().collect()
    }

    /// Fails if no further run can be accepted, given the number of active runs.
    fn check_room(&self, active: usize) -> Result<(), ServiceError> {
        if *self.closing.borrow() {
            return Err(ServiceError::ShuttingDown);
        }
        let Capacity { concurrent, queued } = self.capacity;
        let is_full = active >= concurrent.saturating_add(queued);
        if is_full {
            Err(ServiceError::QueueFull(active.saturating_sub(concurrent)))
        } else {
            Ok(())
        }
    }

    /// Inserts a run into the map. Fails if it is already there or if the limits are reached.
    fn admit(&self, id: &str) -> Result<Arc<ActiveRun>, ServiceError> {
        let mut map = self.active_runs();
        self.check_room(map.len())?;
        Self::insert(&mut map, id)
    }

    fn insert(
        map: &mut HashMap<String, Arc<ActiveRun>>,
        id: &str,
    ) -> Result<Arc<ActiveRun>, ServiceError> {
        match map.entry(id.to_owned()) {
            Entry::Occupied(_) => Err(ServiceError::AlreadyActive(id.to_owned())),
            Entry::Vacant(place) => {
                let active = ActiveRun {
                    recent: Arc::new(RecentEvents::new()),
                    stop: watch::Sender::new(None),
                };
                Ok(place.insert(Arc::new(active)).clone())
            }
        }
    }

    fn remove(&self, id: &str) {
        if let Some(active) = self.active_runs().remove(id) {
            active.recent.close();
        }
    }

    /// Cancels a run that is waiting for an answer.
    async fn cancel_waiting(&self, id: &str) -> Result<RunInfo, ServiceError> {
        // While the run is in the map, no other caller can resume it.
        Self::insert(&mut self.active_runs(), id)?;
        let name = id.to_owned();
        let cancelled = self.with_registry(move |it| {
            if it.get(&name)?.is_some_and(|run| run.status == Status::Waiting) {
                it.set_status(&name, Status::Cancelled, None, &Value::Null)?;
            }
            it.get(&name)
        });
        let run = cancelled.await;
        self.remove(id);
        run?.ok_or_else(|| ServiceError::UnknownRun(id.to_owned()))
    }

    /// Queues an admitted run again, unless it is complete and its runner cannot continue it.
    async fn requeue(&self, id: &str, args: Value) -> Result<RunInfo, ServiceError> {
        let (runner, name) = (self.runner.clone(), id.to_owned());
        let queued = self.with_registry(move |it| {
            let is_done = |it: &RunInfo| it.status == Status::Complete && !runner.can_continue(it);
            if it.get(&name)?.as_ref().is_none_or(is_done) {
                return Ok(None);
            }
            it.requeue(&name, &args)?;
            it.get(&name)
        });
        queued.await?.ok_or_else(|| ServiceError::Complete(id.to_owned()))
    }

    async fn get(&self, id: &str) -> Result<RunInfo, ServiceError> {
        let name = id.to_owned();
        let found = self.with_registry(move |it| it.get(&name)).await?;
        found.ok_or_else(|| ServiceError::UnknownRun(id.to_owned()))
    }

    async fn stored_events(
        &self,
        id: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<RunEvent>, ServiceError> {
        let (runner, name) = (self.runner.clone(), id.to_owned());
        let read = tokio::task::spawn_blocking(move || runner.events(&name, after, limit)).await?;
        read.map_err(|source| ServiceError::Events { id: id.to_owned(), source })
    }

    /// Runs a registry query on a blocking thread.
    async fn with_registry<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Registry) -> Result<T, RegistryError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let registry = self.registry.clone();
        Ok(tokio::task::spawn_blocking(move || query(&registry)).await??)
    }
}
