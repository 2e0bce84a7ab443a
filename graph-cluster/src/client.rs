//! Clients, which submit runs and read their results.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::Value;
use tokio::sync::broadcast::Receiver;

use crate::{
    error::ClusterError,
    run::{RunInfo, StartRun, Ticket},
    run_status::RunStatus,
    scheduler::Scheduler,
    store::{ClusterStatus, Notice, RunEvent, RunStore, wait_for_notice},
};

/// Starts, resumes, cancels and watches runs of a cluster. Clones share the connections.
///
/// ```
/// use graph_cluster::{Client, PostgresQueue, RunStatus, RunStore, StartRun};
///
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let url = "postgresql://graphs:secret@db.example.org/graphs";
/// # let Some(fresh) = graph_tests::postgres::fresh_database() else { return Ok(()) };
/// # let url = &fresh;
/// let client = Client::new(RunStore::connect(url).await?, PostgresQueue::new());
/// client.start(&StartRun::new("run-7", "essay", "thread-7").input("topic", "tea")).await?;
/// // The run waits until a worker claims it; `client.wait("run-7")` returns when it has ended.
/// assert_eq!(client.run("run-7").await?.status, RunStatus::Queued);
/// client.cancel("run-7").await?;
/// assert_eq!(client.wait("run-7").await?.status, RunStatus::Cancelled);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    store: RunStore,
    scheduler: Arc<dyn Scheduler>,
}

impl Client {
    /// Creates a client for the workers that use this scheduler.
    pub fn new(store: RunStore, scheduler: impl Scheduler + 'static) -> Self {
        Self { store, scheduler: Arc::new(scheduler) }
    }

    /// Starts a run. The run stays queued until each earlier run of its thread has ended, is interrupted or sleeps.
    ///
    /// Calling this again with the same request has no further effect. A client that does not know whether its call
    /// succeeded can therefore repeat it.
    pub async fn start(&self, request: &StartRun) -> Result<RunInfo, ClusterError> {
        let run = self.store.insert_run(request, self.scheduler.name()).await?;
        // A later leg of an existing run was submitted when it was queued, possibly with the delay of a timer.
        if run.leg == 0 {
            self.submit_if_queued(&run, request.delay).await?;
        }
        Ok(run)
    }

    /// Returns a run and its result so far.
    pub async fn run(&self, run: &str) -> Result<RunInfo, ClusterError> {
        self.store.read_run(run).await
    }

    /// Waits until a run is neither queued nor running.
    pub async fn wait(&self, run: &str) -> Result<RunInfo, ClusterError> {
        let mut notices = self.store.notices();
        loop {
            let info = self.store.read_run(run).await?;
            if !info.status.is_active() {
                return Ok(info);
            }
            wait_for_notice(&mut notices, &Notice::Changed(run.to_owned())).await;
        }
    }

    /// Resumes an interrupted run with one answer per interrupt id. Interrupts without an answer stay pending. A
    /// stopped or failed run continues from its last checkpoint; pass no answers.
    pub async fn resume(
        &self,
        run: &str,
        answers: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<RunInfo, ClusterError> {
        let answers: BTreeMap<_, _> = answers.into_iter().collect();
        let info = self.store.read_run(run).await?;
        let not_resumable = |info: &RunInfo| ClusterError::NotResumable {
            run: run.to_owned(),
            status: info.status,
        };
        if !matches!(info.status, RunStatus::Interrupted | RunStatus::Stopped | RunStatus::Failed) {
            return Err(not_resumable(&info));
        }
        let pending: Vec<_> = info.outcome.interrupts.iter().map(|it| it.id.as_str()).collect();
        let problem = match answers.keys().find(|it| !pending.contains(&it.as_str())) {
            Some(id) => Some(format!(
                "no interrupt with id `{id}` is pending; the pending ones are: {}",
                pending.join(", ")
            )),
            None if answers.is_empty() && !pending.is_empty() => Some(format!(
                "no answer was passed; answer at least one of the pending interrupts: {}",
                pending.join(", ")
            )),
            None => None,
        };
        if let Some(problem) = problem {
            return Err(ClusterError::InvalidAnswer { run: run.to_owned(), problem });
        }
        let queued = self.store.queue_leg(&info, &answers).await?;
        let info = self.store.read_run(run).await?;
        if !queued {
            return Err(not_resumable(&info));
        }
        self.submit_if_queued(&info, Duration::ZERO).await?;
        Ok(info)
    }

    /// Resumes the only pending interrupt of a run.
    pub async fn answer(
        &self,
        run: &str,
        answer: impl Into<Value>,
    ) -> Result<RunInfo, ClusterError> {
        let info = self.store.read_run(run).await?;
        match &info.outcome.interrupts[..] {
            [interrupt] => self.resume(run, [(interrupt.id.clone(), answer.into())]).await,
            pending => Err(ClusterError::InvalidAnswer {
                run: run.to_owned(),
                problem: format!(
                    "{} interrupts are pending; use `Client::resume` with one answer per interrupt id",
                    pending.len()
                ),
            }),
        }
    }

    /// Cancels a run. If it is executing, its worker cancels it, and [`wait`](Self::wait) returns once that has
    /// happened.
    pub async fn cancel(&self, run: &str) -> Result<(), ClusterError> {
        if self.store.request_cancel(run).await? {
            return Ok(());
        }
        let info = self.store.read_run(run).await?;
        match info.status {
            RunStatus::Cancelled => Ok(()),
            status => Err(ClusterError::NotCancellable { run: run.to_owned(), status }),
        }
    }

    /// Reads the events of a run, starting at position `from`. To continue after an event, pass its `seq + 1`.
    pub fn events(&self, run: impl Into<String>, from: i64) -> Events {
        Events {
            store: self.store.clone(),
            notices: self.store.notices(),
            run: run.into(),
            next: from,
            page: Vec::new().into_iter(),
        }
    }

    /// Returns the workers and the runs that they execute.
    pub async fn status(&self) -> Result<ClusterStatus, ClusterError> {
        self.store.status().await
    }

    /// Checks that the database executes statements.
    pub async fn ping(&self) -> Result<(), ClusterError> {
        self.store.ping().await
    }

    /// Limits how many runs of a tenant execute at the same time, in the whole cluster. Runs beyond the limit stay
    /// queued. The limit applies to runs that are started with [`StartRun::tenant`].
    pub async fn limit_tenant(&self, tenant: &str, max_running: u32) -> Result<(), ClusterError> {
        self.store.limit_tenant(tenant, max_running).await
    }

    /// Removes the limit of a tenant.
    pub async fn unlimit_tenant(&self, tenant: &str) -> Result<(), ClusterError> {
        self.store.unlimit_tenant(tenant).await
    }

    /// Deletes a run that is not active, with its events. The state of its thread stays: delete it with the
    /// checkpointer. Do not use the id for another run of the thread while that state exists: the thread has already
    /// applied the input of this id, so the other run would continue the deleted one.
    pub async fn delete(&self, run: &str) -> Result<(), ClusterError> {
        self.store.delete_run(run).await
    }

    /// Deletes all runs of a thread, with their events. Fails if one of them is active. The state of the thread stays:
    /// delete it with the checkpointer.
    pub async fn delete_runs_of_thread(&self, thread: &str) -> Result<u64, ClusterError> {
        self.store.delete_runs_of_thread(thread).await
    }

    /// Deletes runs that are done, failed or cancelled and have not changed for this time, with their events. Returns
    /// their number. Interrupted and stopped runs stay, because they can be resumed.
    pub async fn delete_ended(&self, unchanged_for: Duration) -> Result<u64, ClusterError> {
        self.store.delete_ended(unchanged_for).await
    }

    /// Returns the metrics of the cluster in the text format of Prometheus.
    pub async fn metrics(&self) -> Result<String, ClusterError> {
        self.store.metrics().await
    }

    async fn submit_if_queued(&self, run: &RunInfo, delay: Duration) -> Result<(), ClusterError> {
        match run.status {
            RunStatus::Queued => self.scheduler.submit(&Ticket { delay, ..run.ticket() }).await,
            _ => Ok(()),
        }
    }
}

/// The events of a run, in order. The run never waits for a reader.
#[derive(Debug)]
pub struct Events {
    store: RunStore,
    notices: Receiver<Notice>,
    run: String,
    next: i64,
    page: std::vec::IntoIter<RunEvent>,
}

impl Events {
    /// Returns the next event. Returns `None` once the run is neither queued nor running and all events are read.
    pub async fn next(&mut self) -> Result<Option<RunEvent>, ClusterError> {
        loop {
            if let Some(event) = self.page.next() {
                self.next = event.seq + 1;
                return Ok(Some(event));
            }
            // The status is read first, because all events are stored before the run ends.
            let is_active = self.store.read_run(&self.run).await?.status.is_active();
            self.page = self.store.read_events(&self.run, self.next).await?.into_iter();
            if self.page.len() == 0 {
                if !is_active {
                    return Ok(None);
                }
                wait_for_notice(&mut self.notices, &Notice::Changed(self.run.clone())).await;
            }
        }
    }
}
