//! A checkpointer around another, for tests that count, refuse or lose what is written.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use crate::checkpoint::{
    Checkpoint, CheckpointError, Checkpointer, History, Keep, Lease, Lookup, NewCheckpoint, Place,
    Pruned, TaskRecord, Write,
};

/// What becomes of writes on their way to a checkpointer.
#[async_trait]
pub trait Way: Send + Sync + fmt::Debug {
    /// Stores several writes, or does something else with them.
    async fn write(&self, to: &dyn Checkpointer, writes: Vec<Write>)
    -> Result<(), CheckpointError>;

    /// Takes a thread.
    async fn lease(&self, from: &dyn Checkpointer, thread: &str) -> Result<Lease, CheckpointError> {
        from.lease(thread).await
    }
}

/// A checkpointer whose writes go another's [`Way`], and all else straight to it.
///
/// ```
/// use std::sync::Arc;
///
/// use async_trait::async_trait;
/// use graph_core::checkpoint::{
///     CheckpointError, Checkpointer, MemorySaver, Write,
///     testkit::{Around, Way},
/// };
///
/// /// A disk that is full.
/// #[derive(Debug)]
/// struct Full;
///
/// #[async_trait]
/// impl Way for Full {
///     async fn write(&self, _: &dyn Checkpointer, _: Vec<Write>) -> Result<(), CheckpointError> {
///         Err(CheckpointError::Storage(Arc::new(std::io::Error::other("no room"))))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let saver = Around::new(Arc::new(MemorySaver::new()), Full);
/// assert!(saver.write(Vec::new()).await.is_err());
/// assert!(saver.threads().await.unwrap().is_empty());
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Around<W> {
    inner: Arc<dyn Checkpointer>,
    way: W,
}

impl<W> Around<W> {
    /// Puts a way before a checkpointer.
    pub fn new(inner: Arc<dyn Checkpointer>, way: W) -> Self {
        Self { inner, way }
    }

    /// The way.
    pub fn way(&self) -> &W {
        &self.way
    }
}

#[async_trait]
impl<W: Way> Checkpointer for Around<W> {
    async fn lease(&self, thread: &str) -> Result<Lease, CheckpointError> {
        self.way.lease(&*self.inner, thread).await
    }

    async fn put(&self, checkpoint: NewCheckpoint) -> Result<(), CheckpointError> {
        self.write(vec![Write::Put(Box::new(checkpoint))]).await
    }

    async fn record(&self, at: &Place, records: Vec<TaskRecord>) -> Result<(), CheckpointError> {
        self.write(vec![Write::Record(at.clone(), records)]).await
    }

    async fn write(&self, writes: Vec<Write>) -> Result<(), CheckpointError> {
        self.way.write(&*self.inner, writes).await
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
