//! A checkpointer that passes its writes through a hook, for tests that count, reject or drop writes.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use graph_core::checkpoint::{
    Checkpoint, CheckpointError, CheckpointWrite, Checkpointer, HistoryQuery, Keep, Lease, Lookup,
    PruneStats,
};

/// Intercepts the changes and leases of a [`HookedSaver`].
#[async_trait]
pub trait WriteHook: Send + Sync + fmt::Debug {
    /// Called before each write, copy and prune. By default, does nothing.
    async fn before_change(&self) {}

    /// Called instead of [`Checkpointer::write`] for every write. `to` is the wrapped saver. By default, writes to it.
    async fn write(
        &self,
        to: &dyn Checkpointer,
        writes: Vec<CheckpointWrite>,
    ) -> Result<(), CheckpointError> {
        to.write(writes).await
    }

    /// Called instead of [`Checkpointer::lease`]. By default, leases the thread from the wrapped saver.
    async fn lease(&self, from: &dyn Checkpointer, thread: &str) -> Result<Lease, CheckpointError> {
        from.lease(thread).await
    }
}

/// A checkpointer that passes writes and leases to a [`WriteHook`], and everything else to the wrapped saver. The hook
/// is also called before copies and prunes.
///
/// ```
/// use std::sync::Arc;
///
/// use async_trait::async_trait;
/// use checkpoint_testkit::{HookedSaver, WriteHook};
/// use graph_core::checkpoint::{CheckpointError, CheckpointWrite, Checkpointer, MemorySaver};
///
/// /// Fails every write, like a full disk.
/// #[derive(Debug)]
/// struct DiskFull;
///
/// #[async_trait]
/// impl WriteHook for DiskFull {
///     async fn write(
///         &self,
///         _: &dyn Checkpointer,
///         _: Vec<CheckpointWrite>,
///     ) -> Result<(), CheckpointError> {
///         Err(CheckpointError::Storage(Arc::new(std::io::Error::other("disk full"))))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let saver = HookedSaver::new(Arc::new(MemorySaver::new()), DiskFull);
/// assert!(saver.write(Vec::new()).await.is_err());
/// assert!(saver.threads().await.unwrap().is_empty());
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct HookedSaver<W> {
    inner: Arc<dyn Checkpointer>,
    hook: W,
}

impl<W> HookedSaver<W> {
    /// Wraps the checkpointer `inner` and passes its writes and leases to `hook`.
    pub fn new(inner: Arc<dyn Checkpointer>, hook: W) -> Self {
        Self { inner, hook }
    }

    /// Returns the hook.
    pub fn hook(&self) -> &W {
        &self.hook
    }
}

#[async_trait]
impl<W: WriteHook> Checkpointer for HookedSaver<W> {
    async fn lease(&self, thread: &str) -> Result<Lease, CheckpointError> {
        self.hook.lease(&*self.inner, thread).await
    }

    async fn write(&self, writes: Vec<CheckpointWrite>) -> Result<(), CheckpointError> {
        self.hook.before_change().await;
        self.hook.write(&*self.inner, writes).await
    }

    async fn get(&self, at: &Lookup) -> Result<Option<Checkpoint>, CheckpointError> {
        self.inner.get(at).await
    }

    async fn list(&self, query: &HistoryQuery) -> Result<Vec<Checkpoint>, CheckpointError> {
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
        self.hook.before_change().await;
        self.inner.copy_thread(from, to).await
    }

    async fn prune(&self, threads: &[String], keep: Keep) -> Result<PruneStats, CheckpointError> {
        self.hook.before_change().await;
        self.inner.prune(threads, keep).await
    }
}
