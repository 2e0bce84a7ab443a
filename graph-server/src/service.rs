//! Starts, watches, cancels and resumes runs. Independent of HTTP.
//!
//! A run is *active* while it is queued or executing. Active runs are kept in one map; the status of all other runs
//! is read from the registry. A run is inserted into the map before the registry marks it active, and is removed
//! after the registry marks it inactive. Every run is therefore always visible in at least one of the two.

mod error;
mod execute;
mod inner;
mod reader;
#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    sync::{Semaphore, watch},
    time,
};

pub use self::{
    error::ServiceError,
    inner::Capacity,
    reader::{EventReader, ReadOutcome},
};

use self::inner::{Inner, Stop};
use crate::{
    registry::Registry,
    run::{NewRun, RunEvent, RunInfo, Status, is_valid_id},
    runner::Runner,
};

/// Time that preempted runs have to release their resources.
const PREEMPTION_GRACE: Duration = Duration::from_secs(10);

/// Starts, watches, cancels and resumes runs. Cloning is cheap; clones share the same runs.
///
/// ```
/// use std::sync::Arc;
/// use graph_server::{Capacity, NewRun, ReadOutcome, Registry, Service, Status};
/// use serde_json::json;
/// # use std::io;
/// # use async_trait::async_trait;
/// # use graph_server::{EventSender, RunEvent, RunInfo, Runner, RunnerError, RunnerOutcome};
/// #
/// # struct Doubler;
/// #
/// # #[async_trait]
/// # impl Runner for Doubler {
/// #     async fn execute(&self, run: &RunInfo, _: &EventSender) -> Result<RunnerOutcome, RunnerError> {
/// #         let number = run.input.as_i64().ok_or_else(|| RunnerError("no number".to_owned()))?;
/// #         Ok(RunnerOutcome::Complete(json!(2 * number)))
/// #     }
/// #
/// #     fn events(&self, _: &str, _: u64, _: usize) -> io::Result<Vec<RunEvent>> {
/// #         Ok(Vec::new())
/// #     }
/// # }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // `Doubler` is a `Runner`, whose documentation shows it. To serve graphs, use `langgraph`.
/// let service = Service::open(Registry::in_memory()?, Arc::new(Doubler), Capacity::default()).await?;
/// service.start(NewRun { id: "run-1".into(), subject: "doubler".into(), input: json!(21) }).await?;
///
/// let mut reader = service.read_events("run-1", 0).await?;
/// while let ReadOutcome::Events(events) = reader.next().await? {
///     println!("{} events", events.len());
/// }
/// let run = service.get("run-1").await?;
/// assert_eq!((run.status, run.outcome), (Status::Complete, json!(42)));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Service {
    inner: Arc<Inner>,
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
        self.inner.wait_if_ending(id).await;
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

    /// Cancels a run. If the run is active, waits until it has stopped. A run that is waiting for an answer can be
    /// cancelled too. Cancelled runs can be resumed.
    pub async fn cancel(&self, id: &str) -> Result<RunInfo, ServiceError> {
        self.inner.wait_if_ending(id).await;
        let mut run = self.inner.get(id).await?;
        if let Some(active) = self.inner.active(id) {
            active.stop(Stop::Cancelled);
            active.wait_until_inactive().await;
            run = self.inner.get(id).await?;
            // The run may have started to wait for an answer before it was asked to stop.
            if run.status != Status::Waiting {
                return Ok(run);
            }
        }
        if run.status != Status::Waiting {
            return Err(ServiceError::NotActive { id: run.id, status: run.status });
        }
        let inner = self.inner.clone();
        tokio::spawn(async move { inner.cancel_waiting(&run.id).await }).await?
    }

    /// Deletes an inactive run. `delete_files` deletes the data that the runner stored; no caller can resume the run
    /// before `delete_files` returns. If `delete_files` fails, the run is kept, and the inner result is the error. If
    /// the returned future is dropped, the run is deleted nevertheless.
    pub async fn delete<E: Send + 'static>(
        &self,
        id: &str,
        delete_files: impl FnOnce() -> Result<(), E> + Send + 'static,
    ) -> Result<Result<(), E>, ServiceError> {
        let (inner, id) = (self.inner.clone(), id.to_owned());
        let deleting = async move {
            inner.get(&id).await?;
            inner.wait_if_ending(&id).await;
            Inner::insert(&mut inner.active_runs(), &id)?;
            let name = id.clone();
            let deleted = inner.with_registry(move |it| match delete_files() {
                Ok(()) => it.delete(&name).map(Ok),
                Err(error) => Ok(Err(error)),
            });
            let deleted = deleted.await;
            inner.remove(&id);
            deleted
        };
        tokio::spawn(deleting).await?
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
                active.wait_until_inactive().await;
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
                active.wait_until_inactive().await;
            }
        };
        if time::timeout(PREEMPTION_GRACE, all_stopped).await.is_err() {
            tracing::warn!("some runs did not stop in time; the next server resumes them");
        }
    }
}
