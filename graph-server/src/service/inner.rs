//! The active runs of a service, and access to the registry of all runs.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use super::error::ServiceError;
use crate::{
    recent_events::RecentEvents,
    registry::{Registry, RegistryError},
    run::{RunEvent, RunInfo, Status},
    runner::Runner,
};

/// Admission limits of a [`Service`](crate::Service).
///
/// ```
/// use graph_server::Capacity;
///
/// let capacity = Capacity { concurrent: 2, ..Capacity::default() };
/// assert_eq!(capacity.queued, 1000);
/// ```
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

/// State that all clones of a `Service` share.
pub(super) struct Inner {
    pub(super) registry: Registry,
    pub(super) runner: Arc<dyn Runner>,
    pub(super) capacity: Capacity,
    pub(super) permits: Arc<Semaphore>,
    pub(super) active: Mutex<HashMap<String, Arc<ActiveRun>>>,
    pub(super) closing: watch::Sender<bool>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

/// An active run.
pub(super) struct ActiveRun {
    pub(super) recent: Arc<RecentEvents>,
    pub(super) stop: watch::Sender<Option<Stop>>,
    /// Whether the run has stopped executing and its last state is being stored.
    pub(super) is_ending: AtomicBool,
}

impl ActiveRun {
    fn new() -> Self {
        Self {
            recent: Arc::new(RecentEvents::new()),
            stop: watch::Sender::new(None),
            is_ending: AtomicBool::new(false),
        }
    }

    /// Waits until the run has been removed from the map of active runs.
    pub(super) async fn wait_until_inactive(&self) {
        // Waiting cannot fail, because `self` contains the sender.
        let _ = self.recent.watch().wait_for(|it| it.is_closed).await;
    }

    /// Asks the run to stop. If several callers do so, the first reason counts.
    pub(super) fn stop(&self, why: Stop) {
        self.stop.send_if_modified(|it| {
            let is_first = it.is_none();
            it.get_or_insert(why);
            is_first
        });
    }
}

/// Reason for stopping an active run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// A caller cancelled the run.
    Cancelled,
    /// The server is shutting down. The run is resumed when the server starts again.
    Preempted,
}

impl Inner {
    pub(super) fn active_runs(&self) -> MutexGuard<'_, HashMap<String, Arc<ActiveRun>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn active(&self, id: &str) -> Option<Arc<ActiveRun>> {
        self.active_runs().get(id).cloned()
    }

    pub(super) fn all_active(&self) -> Vec<Arc<ActiveRun>> {
        self.active_runs().values().cloned().collect()
    }

    /// Fails if no further run can be accepted, given the number of active runs.
    pub(super) fn check_room(&self, active: usize) -> Result<(), ServiceError> {
        if self.is_shutting_down() {
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

    /// Inserts a run into the map of active runs. Fails if the run is already there or if the limits are reached.
    pub(super) fn admit(&self, id: &str) -> Result<Arc<ActiveRun>, ServiceError> {
        let mut map = self.active_runs();
        self.check_room(map.len())?;
        Self::insert(&mut map, id)
    }

    pub(super) fn insert(
        map: &mut HashMap<String, Arc<ActiveRun>>,
        id: &str,
    ) -> Result<Arc<ActiveRun>, ServiceError> {
        match map.entry(id.to_owned()) {
            Entry::Occupied(_) => Err(ServiceError::AlreadyActive(id.to_owned())),
            Entry::Vacant(place) => Ok(place.insert(Arc::new(ActiveRun::new())).clone()),
        }
    }

    pub(super) fn remove(&self, id: &str) {
        if let Some(active) = self.active_runs().remove(id) {
            active.recent.close();
        }
    }

    /// If the last state of a run is being stored, waits until the run has left the map of active runs. Otherwise, a
    /// caller that has read this state from the registry could not change the run yet.
    pub(super) async fn wait_if_ending(&self, id: &str) {
        let ending = self.active(id).filter(|it| it.is_ending.load(Ordering::SeqCst));
        if let Some(active) = ending {
            active.wait_until_inactive().await;
        }
    }

    /// Cancels a run that is waiting for an answer.
    pub(super) async fn cancel_waiting(&self, id: &str) -> Result<RunInfo, ServiceError> {
        // While the run is in the map of active runs, no other caller can resume it.
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
    pub(super) async fn requeue(&self, id: &str, args: Value) -> Result<RunInfo, ServiceError> {
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

    pub(super) async fn get(&self, id: &str) -> Result<RunInfo, ServiceError> {
        let name = id.to_owned();
        let found = self.with_registry(move |it| it.get(&name)).await?;
        found.ok_or_else(|| ServiceError::UnknownRun(id.to_owned()))
    }

    pub(super) async fn stored_events(
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
    pub(super) async fn with_registry<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Registry) -> Result<T, RegistryError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let registry = self.registry.clone();
        Ok(tokio::task::spawn_blocking(move || query(&registry)).await??)
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        *self.closing.borrow()
    }

    /// Waits until the server shuts down.
    pub(super) async fn wait_for_shutdown(&self) {
        // Waiting cannot fail, because `self` contains the sender.
        let _ = self.closing.subscribe().wait_for(|it| *it).await;
    }
}
