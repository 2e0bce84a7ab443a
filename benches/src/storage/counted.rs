//! Counts what the engine asks a checkpointer to make durable: the fsyncs that nobody can do without.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use async_trait::async_trait;
use graph_core::checkpoint::{
    Change, Checkpoint, CheckpointError, Checkpointer, Cursor, Header, History, Keep, Lease,
    Lookup, NewCheckpoint, Place, Pruned, TaskRecord, Write,
};
use serde::Serialize;

/// A checkpointer that counts on the way to another.
#[derive(Debug)]
pub struct Counted {
    inner: Arc<dyn Checkpointer>,
    commits: AtomicUsize,
    bytes: AtomicUsize,
}

impl Counted {
    /// Counts from zero.
    pub fn new(inner: Arc<dyn Checkpointer>) -> Self {
        Self { inner, commits: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
    }

    /// How many writes had to be durable before the run could go on.
    pub fn commits(&self) -> usize {
        self.commits.load(Relaxed)
    }

    /// How many bytes they were, as JSON.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    fn count<'a>(&self, writes: impl IntoIterator<Item = Counting<'a>>) {
        self.commits.fetch_add(1, Relaxed);
        for write in writes {
            let json = serde_json::to_vec(&write).expect("what is stored can be written as JSON");
            self.bytes.fetch_add(json.len(), Relaxed);
        }
    }
}

/// What is counted of a write.
#[derive(Serialize)]
#[serde(untagged)]
enum Counting<'a> {
    Put(&'a Place, &'a Header, &'a Cursor, &'a [(String, Change)]),
    Record(&'a Place, &'a [TaskRecord]),
}

impl<'a> Counting<'a> {
    fn put(checkpoint: &'a NewCheckpoint) -> Self {
        let NewCheckpoint { place, header, cursor, changes, .. } = checkpoint;
        Self::Put(place, header, cursor, changes)
    }
}

#[async_trait]
impl Checkpointer for Counted {
    async fn lease(&self, thread: &str) -> Result<Lease, CheckpointError> {
        self.inner.lease(thread).await
    }

    async fn put(&self, checkpoint: NewCheckpoint) -> Result<(), CheckpointError> {
        self.count([Counting::put(&checkpoint)]);
        self.inner.put(checkpoint).await
    }

    async fn record(&self, at: &Place, records: Vec<TaskRecord>) -> Result<(), CheckpointError> {
        self.count([Counting::Record(at, &records)]);
        self.inner.record(at, records).await
    }

    async fn write(&self, writes: Vec<Write>) -> Result<(), CheckpointError> {
        self.count(writes.iter().map(|it| match it {
            Write::Put(checkpoint) => Counting::put(checkpoint),
            Write::Record(at, records) => Counting::Record(at, records),
        }));
        self.inner.write(writes).await
    }

    async fn get(&self, at: &Lookup) -> Result<Option<Checkpoint>, CheckpointError> {
        self.inner.get(at).await
    }

    async fn list(&self, query: &History) -> Result<Vec<Checkpoint>, CheckpointError> {
        self.inner.list(query).await
    }

    async fn threads(&self) -> Result<Vec<String>, CheckpointError> {
        self.inner.threads().await
    }

    async fn namespaces(&self, thread: &str) -> Result<Vec<(String, usize)>, CheckpointError> {
        self.inner.namespaces(thread).await
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), CheckpointError> {
        self.inner.delete_thread(thread).await
    }

    async fn delete_runs(&self, runs: &[String]) -> Result<(), CheckpointError> {
        self.inner.delete_runs(runs).await
    }

    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), CheckpointError> {
        self.inner.copy_thread(from, to).await
    }

    async fn prune(&self, threads: &[String], keep: Keep) -> Result<Pruned, CheckpointError> {
        self.inner.prune(threads, keep).await
    }
}

#[cfg(test)]
mod tests {
    use graph_core::MemorySaver;

    use super::*;
    use crate::storage::{Load, chat};

    #[tokio::test]
    async fn a_step_is_one_commit() {
        let counted = Arc::new(Counted::new(Arc::new(MemorySaver::new())));
        let load = Load { threads: 2, steps: 10, message: 100 };
        chat::run(&chat::graph(counted.clone()), "chat", load).await;
        // Each thread stores its input and START beside its steps.
        assert_eq!(counted.commits(), 2 * (10 + 2));
        assert!(counted.bytes() > 2 * 10 * 100, "{}", counted.bytes());
    }
}
