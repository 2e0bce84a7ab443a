//! The run's own storage as a debate has it. A guest's failures are the debate's; the storage's are the run's.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use graph_core::checkpoint::{
    Checkpoint, CheckpointError, Checkpointer, History, Keep, Lease, Lookup, NewCheckpoint, Place,
    Pruned, TaskRecord, Write,
};

/// A checkpointer that remembers how it failed. What a guest can bring about by itself, as writing to a thread that has
/// moved on, is no failure of the storage.
#[derive(Debug)]
pub(super) struct Watched {
    inner: Arc<dyn Checkpointer>,
    failure: OnceLock<CheckpointError>,
}

impl Watched {
    pub(super) fn new(inner: Arc<dyn Checkpointer>) -> Self {
        Self { inner, failure: OnceLock::new() }
    }

    /// The first failure of the storage, if it had any.
    pub(super) fn failure(&self) -> Option<&CheckpointError> {
        self.failure.get()
    }

    fn noted<T>(&self, done: Result<T, CheckpointError>) -> Result<T, CheckpointError> {
        if let Err(error @ CheckpointError::Storage(_)) = &done {
            self.failure.get_or_init(|| error.clone());
        }
        done
    }
}

#[async_trait]
impl Checkpointer for Watched {
    async fn lease(&self, thread: &str) -> Result<Lease, CheckpointError> {
        self.noted(self.inner.lease(thread).await)
    }

    async fn put(&self, checkpoint: NewCheckpoint) -> Result<(), CheckpointError> {
        self.noted(self.inner.put(checkpoint).await)
    }

    async fn record(&self, at: &Place, records: Vec<TaskRecord>) -> Result<(), CheckpointError> {
        self.noted(self.inner.record(at, records).await)
    }

    async fn write(&self, writes: Vec<Write>) -> Result<(), CheckpointError> {
        self.noted(self.inner.write(writes).await)
    }

    async fn get(&self, at: &Lookup) -> Result<Option<Checkpoint>, CheckpointError> {
        self.noted(self.inner.get(at).await)
    }

    async fn list(&self, query: &History) -> Result<Vec<Checkpoint>, CheckpointError> {
        self.noted(self.inner.list(query).await)
    }

    async fn threads(&self) -> Result<Vec<String>, CheckpointError> {
        self.noted(self.inner.threads().await)
    }

    async fn namespaces(&self, thread: &str) -> Result<Vec<(String, usize)>, CheckpointError> {
        self.noted(self.inner.namespaces(thread).await)
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), CheckpointError> {
        self.noted(self.inner.delete_thread(thread).await)
    }

    async fn delete_runs(&self, runs: &[String]) -> Result<(), CheckpointError> {
        self.noted(self.inner.delete_runs(runs).await)
    }

    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), CheckpointError> {
        self.noted(self.inner.copy_thread(from, to).await)
    }

    async fn prune(&self, threads: &[String], keep: Keep) -> Result<Pruned, CheckpointError> {
        self.noted(self.inner.prune(threads, keep).await)
    }
}
