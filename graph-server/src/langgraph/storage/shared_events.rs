//! Stored events of runs, and the notices and leases that replicas share.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::broadcast;
use uuid::Uuid;

use super::queue::Claim;
use crate::langgraph::{cancellation::Cancellation, error::ApiResult};

/// A stored event of a run.
#[derive(Debug)]
pub(in crate::langgraph) enum StoredEvent {
    /// An event with its number.
    Item { seq: u64, body: String },
    /// The run has ended with this output.
    End { output: Value },
}

/// A change that a replica announces to all replicas, including itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "postgres"),
    expect(dead_code, reason = "only PostgreSQL shares events between replicas")
)]
pub(in crate::langgraph) enum Notice {
    /// A replica claimed a run.
    Started { thread: Uuid, run: Uuid },
    /// A run has new events or has ended.
    Events(Uuid),
    /// The cancellation of a run was requested.
    Cancelled,
    /// The state of a thread was edited.
    StateEdited(Uuid),
    /// A thread was deleted.
    Deleted(Uuid),
    /// A cron or the time to live of a thread was changed.
    Timer,
    /// Notices may have been lost.
    Lost,
}

/// Stored events of runs.
#[async_trait]
pub(in crate::langgraph) trait EventLog: fmt::Debug + Send + Sync {
    /// Stores events of a claimed run. Returns `false` if another replica has claimed the run.
    async fn append(&self, claim: &Claim, events: &[(u64, String)]) -> ApiResult<bool>;

    /// Returns events of a run after the event with the number `after`, in order. Returns an empty list if there are
    /// none.
    async fn read(&self, run: Uuid, after: u64) -> ApiResult<Vec<StoredEvent>>;

    /// Returns the latest runs of a thread that have stored events or that another replica executes, oldest first.
    async fn runs_of_thread(&self, thread: Uuid) -> ApiResult<Vec<Uuid>>;

    /// Deletes the events of a thread.
    async fn delete_thread(&self, thread: Uuid) -> ApiResult<()>;

    /// Deletes the events of runs that ended long ago.
    async fn delete_old(&self) -> ApiResult<()>;
}

/// Notices and leases of replicas that share their events.
#[async_trait]
pub(in crate::langgraph) trait SharedEvents: fmt::Debug + Send + Sync {
    /// Returns a receiver of the notices of all replicas.
    fn notices(&self) -> broadcast::Receiver<Notice>;

    /// Returns the duration of a lease on a run.
    fn lease(&self) -> Duration;

    /// Extends the leases on runs, given with the numbers of their claims. Returns the runs that this replica still
    /// holds, with the cancellations that were requested.
    async fn renew(&self, held: &[(Uuid, i64)]) -> ApiResult<Vec<(Uuid, Option<Cancellation>)>>;

    /// Sends a notice to all replicas.
    async fn announce(&self, notice: Notice) -> ApiResult<()>;
}
