//! A scheduler that needs only the database: workers claim queued runs from a table, under leases.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::{sync::Semaphore, task::JoinSet, time::sleep};

use super::Scheduler;
use crate::{
    error::ClusterError, leg::LegRunner, limits::POLL_INTERVAL, run::Ticket, store::Notice,
};

const NAME: &str = "postgres";

/// Workers claim queued runs from PostgreSQL. A run whose worker dies is claimed by another one when its lease expires.
///
/// ```
/// use graph_cluster::{PostgresQueue, Scheduler};
///
/// // Pass it to `Worker::serve` and `Client::new`.
/// let scheduler = PostgresQueue::new().capacity(4);
/// assert_eq!(scheduler.name(), "postgres");
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct PostgresQueue {
    capacity: usize,
}

impl Default for PostgresQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl PostgresQueue {
    /// Creates a scheduler whose workers each execute up to 16 runs concurrently.
    pub fn new() -> Self {
        Self { capacity: 16 }
    }

    /// Sets the maximum number of runs that a worker executes concurrently.
    pub fn capacity(mut self, runs: usize) -> Self {
        self.capacity = runs.max(1);
        self
    }
}

#[async_trait]
impl Scheduler for PostgresQueue {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Does nothing, because the workers are notified when the run is inserted into the table.
    async fn submit(&self, _: &Ticket) -> Result<(), ClusterError> {
        Ok(())
    }

    async fn work(&self, runner: Arc<LegRunner>) -> Result<(), ClusterError> {
        let slots = Arc::new(Semaphore::new(self.capacity));
        let poll_interval = runner.heartbeat_interval().min(POLL_INTERVAL);
        let mut notices = runner.store.notices();
        let mut legs = JoinSet::new();
        loop {
            let slot = tokio::select! {
                biased;
                () = runner.draining() => break,
                slot = slots.clone().acquire_owned() => slot.expect("the semaphore is never closed"),
            };
            while legs.try_join_next().is_some() {}
            let served = runner.graphs.served();
            let claimed =
                runner.store.claim_next(&runner.worker, served, runner.options.lease, NAME).await;
            match claimed {
                Ok(Some(claim)) => {
                    let runner = runner.clone();
                    legs.spawn(async move {
                        let _slot = slot;
                        runner.execute(&claim).await
                    });
                    continue;
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "cannot claim a run; retrying"),
            }
            drop(slot);
            tokio::select! {
                () = runner.draining() => break,
                () = sleep(poll_interval) => {}
                () = async { while notices.recv().await.is_ok_and(|it| !concerns_queue(&it)) {} } => {}
            }
        }
        // Legs are dropped by the worker's drain timeout at the latest.
        while legs.join_next().await.is_some() {}
        Ok(())
    }
}

/// Returns whether a notice can mean that a run may be claimed.
fn concerns_queue(notice: &Notice) -> bool {
    matches!(notice, Notice::Queued | Notice::Lost)
}
