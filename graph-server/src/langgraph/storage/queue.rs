//! The active runs of all threads, in the order in which they execute.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::Notify;
use uuid::Uuid;

use super::documents::Row;
use crate::langgraph::{cancellation::Cancellation, error::ApiResult};

/// A run that executes, waits in the queue of its thread, or waits for its start time.
#[derive(Debug, Clone)]
pub(in crate::langgraph) struct ActiveRun {
    pub(in crate::langgraph) run: Uuid,
    pub(in crate::langgraph) thread: Uuid,
    pub(in crate::langgraph) owner: Option<String>,
    /// Whether a process executes the run.
    pub(in crate::langgraph) started: bool,
    /// Whether the start time of the run has been reached.
    pub(in crate::langgraph) due: bool,
    /// Whether the final status of the run is stored. The run leaves the queue when its thread is updated.
    pub(in crate::langgraph) has_ended: bool,
}

/// A thread while it is locked for a change.
#[derive(Debug)]
pub(in crate::langgraph) struct ThreadEntry {
    /// The document of the thread, if the thread exists.
    pub(in crate::langgraph) document: Option<String>,
    /// Owner of the thread.
    pub(in crate::langgraph) owner: Option<String>,
    /// The active runs of the thread, in the order in which they execute.
    pub(in crate::langgraph) active: Vec<ActiveRun>,
    /// Whether the thread is being deleted or pruned.
    pub(in crate::langgraph) reserved: bool,
    /// Whether the metadata of the thread must not change.
    pub(in crate::langgraph) metadata_locked: bool,
}

/// A change of a thread. All parts of it are stored together.
#[derive(Debug, Default)]
pub(in crate::langgraph) struct ThreadChange {
    /// Documents to store.
    pub(in crate::langgraph) put: Vec<Row>,
    /// Run to add to the queue.
    pub(in crate::langgraph) run: Option<NewRun>,
    /// Cancellation of the active runs that are due.
    pub(in crate::langgraph) cancel: Option<Cancellation>,
    /// Whether to reserve the thread, so that no run can be added.
    pub(in crate::langgraph) reserve: bool,
    /// Id of a lock on the metadata of the thread. A thread can have several locks.
    pub(in crate::langgraph) lock_metadata: Option<Uuid>,
}

/// A run that is added to the queue.
#[derive(Debug)]
pub(in crate::langgraph) struct NewRun {
    pub(in crate::langgraph) run: Uuid,
    pub(in crate::langgraph) owner: Option<String>,
    /// Time until the run may start.
    pub(in crate::langgraph) delay: Duration,
}

/// Decides how a locked thread changes.
pub(in crate::langgraph) type Decide<'a> =
    dyn FnMut(ThreadEntry) -> ApiResult<ThreadChange> + Send + 'a;

/// A run that this process executes or ends.
#[derive(Debug, Clone)]
pub(in crate::langgraph) struct Claim {
    pub(in crate::langgraph) run: Uuid,
    pub(in crate::langgraph) thread: Uuid,
    /// Number of the claim. Writes with the number of an earlier claim are rejected.
    pub(in crate::langgraph) fence: i64,
    /// Number that the next events of the run must exceed. If the storage is shared, this is the maximum of the number
    /// of the thread's last stored event and the time of the claim in microseconds, by the clock of the database.
    /// Otherwise it is 0.
    pub(in crate::langgraph) last_seq: u64,
    /// Cancellation that was requested before the claim.
    pub(in crate::langgraph) cancellation: Option<Cancellation>,
    /// Whether an earlier process may hold the checkpointer's lease on the thread for this run. No other run of the
    /// thread is executing.
    pub(in crate::langgraph) takes_over: bool,
}

/// Next run to execute.
#[derive(Debug)]
pub(in crate::langgraph) enum Next {
    Run(Claim),
    /// No run can be executed now. A run may become available after this time.
    Wait(Option<Duration>),
}

/// Effect of a request to cancel a run.
#[derive(Debug)]
pub(in crate::langgraph) enum CancelOutcome {
    /// The run is not active.
    NotActive,
    /// The process that executes the run will cancel it.
    Requested,
    /// The run had not started. The caller has claimed it and must end it.
    Claimed(Claim),
}

/// The active runs. Runs of one thread execute one after the other.
#[async_trait]
pub(in crate::langgraph) trait RunQueue: fmt::Debug + Send + Sync {
    /// Changes a thread. Concurrent changes of the same thread wait.
    async fn change_thread(&self, thread: Uuid, decide: &mut Decide<'_>) -> ApiResult<()>;

    /// Allows runs on a reserved thread again.
    async fn release_thread(&self, thread: Uuid) -> ApiResult<()>;

    /// Releases the lock with this id on the metadata of a thread, if it exists.
    async fn unlock_metadata(&self, lock: Uuid) -> ApiResult<()>;

    /// Returns the active runs of a thread, or of all threads.
    async fn active_runs(&self, thread: Option<Uuid>) -> ApiResult<Vec<ActiveRun>>;

    /// Claims the next run that may execute.
    async fn claim_next(&self) -> ApiResult<Next>;

    /// Stores a request to cancel a run, so that it survives a crash. A rollback overrides an interrupt that was
    /// requested earlier.
    async fn request_cancel(
        &self,
        run: Uuid,
        cancellation: &Cancellation,
    ) -> ApiResult<CancelOutcome>;

    /// Stores the document of a claimed run, and the document of its webhook, whose id is that of the run. Returns
    /// `false` if another process has claimed the run.
    async fn put_run(&self, claim: &Claim, run: Row, webhook: Option<Row>) -> ApiResult<bool>;

    /// Removes a run that has ended, and announces its output to other processes. Returns `false` if another process
    /// has claimed the run.
    async fn end_run(&self, claim: &Claim, output: &Value) -> ApiResult<bool>;

    /// Gives up all claims of this process, so that another process can continue the runs.
    async fn release_claims(&self) -> ApiResult<()>;

    /// Notified when a run may have become available.
    fn changed(&self) -> Arc<Notify>;
}
