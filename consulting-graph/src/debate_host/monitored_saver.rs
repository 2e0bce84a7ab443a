//! Wraps the run's checkpointer, so that storage failures can be distinguished from guest failures. A
//! guest failure fails only its debate, but a storage failure fails the whole run.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use graph_core::checkpoint::{
    Checkpoint, CheckpointError, CheckpointWrite, Checkpointer, HistoryQuery, Keep, Lease, Lookup,
    PruneStats,
};

/// A checkpointer that remembers the first storage failure. Errors that a guest can cause, such as a write that is
/// based on an outdated checkpoint, are not storage failures.
#[derive(Debug)]
pub struct MonitoredSaver {
    inner: Arc<dyn Checkpointer>,
    failure: OnceLock<CheckpointError>,
}

impl MonitoredSaver {
    /// Wraps a checkpointer.
    pub fn new(inner: Arc<dyn Checkpointer>) -> Self {
        Self { inner, failure: OnceLock::new() }
    }

    /// Returns the first storage failure, if there was one.
    pub(super) fn storage_failure(&self) -> Option<&CheckpointError> {
        self.failure.get()
    }

    fn record_failure<T>(&self, result: Result<T, CheckpointError>) -> Result<T, CheckpointError> {
        if let Err(error @ CheckpointError::Storage(_)) = &result {
            self.failure.get_or_init(|| error.clone());
        }
        result
    }
}

#[async_trait]
impl Checkpointer for MonitoredSaver {
    async fn lease(&self, thread: &str) -> Result<Lease, CheckpointError> {
        self.record_failure(self.inner.lease(thread).await)
    }

    async fn write(&self, writes: Vec<CheckpointWrite>) -> Result<(), CheckpointError> {
        self.record_failure(self.inner.write(writes).await)
    }

    async fn get(&self, at: &Lookup) -> Result<Option<Checkpoint>, CheckpointError> {
        self.record_failure(self.inner.get(at).await)
    }

    async fn list(&self, query: &HistoryQuery) -> Result<Vec<Checkpoint>, CheckpointError> {
        self.record_failure(self.inner.list(query).await)
    }

    async fn threads(&self) -> Result<Vec<String>, CheckpointError> {
        self.record_failure(self.inner.threads().await)
    }

    async fn namespaces(&self, thread: &str) -> Result<Vec<(String, usize)>, CheckpointError> {
        self.record_failure(self.inner.namespaces(thread).await)
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), CheckpointError> {
        self.record_failure(self.inner.delete_thread(thread).await)
    }

    async fn delete_runs(&self, runs: &[String]) -> Result<(), CheckpointError> {
        self.record_failure(self.inner.delete_runs(runs).await)
    }

    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), CheckpointError> {
        self.record_failure(self.inner.copy_thread(from, to).await)
    }

    async fn prune(&self, threads: &[String], keep: Keep) -> Result<PruneStats, CheckpointError> {
        self.record_failure(self.inner.prune(threads, keep).await)
    }
}
