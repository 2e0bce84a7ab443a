//! The trait that stores checkpoints.

use std::fmt;

use async_trait::async_trait;

use crate::checkpoint::{
    error::CheckpointError,
    query::{HistoryQuery, Keep, Lookup, PruneStats},
    record::TaskRecord,
    stored::{Checkpoint, CheckpointKey, CheckpointWrite, NewCheckpoint},
};

/// Stores the checkpoints of threads.
///
/// Implementations should pass the conformance suite in the crate `checkpoint-testkit`. All methods may be called
/// concurrently.
///
/// A checkpointer can also wrap another one. This one counts the writes:
///
/// ```
/// use std::sync::{
///     Arc,
///     atomic::{AtomicUsize, Ordering},
/// };
///
/// use async_trait::async_trait;
/// use graph_core::checkpoint::{
///     Checkpoint, CheckpointError, CheckpointWrite, Checkpointer, HistoryQuery, Keep, Lease, Lookup, MemorySaver,
///     PruneStats,
/// };
/// use graph_core::{START, State, StateGraph};
///
/// #[derive(Debug, Default)]
/// struct CountingSaver {
///     inner: MemorySaver,
///     writes: AtomicUsize,
/// }
///
/// #[async_trait]
/// impl Checkpointer for CountingSaver {
///     async fn write(&self, writes: Vec<CheckpointWrite>) -> Result<(), CheckpointError> {
///         self.writes.fetch_add(writes.len(), Ordering::Relaxed);
///         self.inner.write(writes).await
///     }
///
///     async fn lease(&self, thread: &str) -> Result<Lease, CheckpointError> {
///         self.inner.lease(thread).await
///     }
///
///     async fn get(&self, at: &Lookup) -> Result<Option<Checkpoint>, CheckpointError> {
///         self.inner.get(at).await
///     }
///
/// // The other methods delegate in the same way.
/// #     async fn evict_lease_holder(&self, thread: &str) -> Result<bool, CheckpointError> {
/// #         self.inner.evict_lease_holder(thread).await
/// #     }
/// #     async fn list(&self, query: &HistoryQuery) -> Result<Vec<Checkpoint>, CheckpointError> {
/// #         self.inner.list(query).await
/// #     }
/// #     async fn threads(&self) -> Result<Vec<String>, CheckpointError> {
/// #         self.inner.threads().await
/// #     }
/// #     async fn namespaces(&self, thread: &str) -> Result<Vec<(String, usize)>, CheckpointError> {
/// #         self.inner.namespaces(thread).await
/// #     }
/// #     async fn delete_thread(&self, thread: &str) -> Result<(), CheckpointError> {
/// #         self.inner.delete_thread(thread).await
/// #     }
/// #     async fn delete_runs(&self, runs: &[String]) -> Result<(), CheckpointError> {
/// #         self.inner.delete_runs(runs).await
/// #     }
/// #     async fn copy_thread(&self, from: &str, to: &str) -> Result<(), CheckpointError> {
/// #         self.inner.copy_thread(from, to).await
/// #     }
/// #     async fn prune(&self, threads: &[String], keep: Keep) -> Result<PruneStats, CheckpointError> {
/// #         self.inner.prune(threads, keep).await
/// #     }
/// }
///
/// # #[derive(State, Clone, Debug, Default)]
/// # struct Count {
/// #     #[reduce(add)]
/// #     value: u32,
/// # }
/// # async fn increment(_: &Count) -> CountUpdate {
/// #     Count::update().value(1)
/// # }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let saver = Arc::new(CountingSaver::default());
/// let graph = StateGraph::<Count>::new()
///     .node(increment)
///     .edge(START, increment)
///     .checkpointer(saver.clone())
///     .compile()?;
/// graph.thread("1", ()).invoke(Count::default()).await?;
/// assert!(saver.writes.load(Ordering::Relaxed) > 0);
/// assert_eq!(saver.threads().await?, ["1"]);
/// # Ok(()) }
/// ```
#[async_trait]
pub trait Checkpointer: Send + Sync + fmt::Debug {
    /// Leases the thread to one run. Fails with [`CheckpointError::Busy`] while an earlier lease on the thread is held.
    ///
    /// The lease prevents two runs from working on a thread concurrently. The head check in [`put`](Self::put) keeps
    /// two runs from forking the thread even if a lease has expired.
    async fn lease(&self, thread: &str) -> Result<Lease, CheckpointError>;

    /// Ends the lease of another process on the thread, so that this process can lease the thread. Returns whether a
    /// lease was ended.
    ///
    /// Call this method only if the other process has lost the right to run the thread, for example because another
    /// process has claimed its run. The other process may be suspended or disconnected. Once the thread is leased
    /// again, writes of the other process are rejected.
    ///
    /// Does nothing by default, for storages that a single process uses.
    async fn evict_lease_holder(&self, thread: &str) -> Result<bool, CheckpointError> {
        let _ = thread;
        Ok(false)
    }

    /// Stores writes of one run, in order. A storage that can commit several writes at once should do so, because a
    /// step then costs one commit. If this method fails, a prefix of the writes may have been stored.
    ///
    /// [`put`](Self::put) and [`record`](Self::record) describe the two kinds of writes.
    async fn write(&self, writes: Vec<CheckpointWrite>) -> Result<(), CheckpointError>;

    /// Stores a checkpoint. Fails with [`CheckpointError::HeadMoved`] if the namespace's head (its newest checkpoint)
    /// differs from [`NewCheckpoint::expected_head`].
    ///
    /// The method is idempotent: storing the same checkpoint again succeeds, because after a crash the caller cannot
    /// know whether the checkpoint was stored. If another run has stored a checkpoint with the same id, the method
    /// fails with `HeadMoved`.
    async fn put(&self, checkpoint: NewCheckpoint) -> Result<(), CheckpointError> {
        self.write(vec![CheckpointWrite::Put(Box::new(checkpoint))]).await
    }

    /// Stores records for tasks of the step that follows a checkpoint.
    ///
    /// Each task keeps one record per [slot](crate::checkpoint::TaskEvent::slot). A second
    /// [`Done`](crate::checkpoint::TaskEvent::Done), a second command of a run or a second effect with the same key is
    /// ignored. Any other record replaces the earlier record in its slot. Records may be stored before their
    /// checkpoint.
    async fn record(
        &self,
        at: &CheckpointKey,
        records: Vec<TaskRecord>,
    ) -> Result<(), CheckpointError> {
        self.write(vec![CheckpointWrite::Record(at.clone(), records)]).await
    }

    /// Reads a checkpoint with its records. If `at` contains no id, reads the newest checkpoint in the namespace.
    async fn get(&self, at: &Lookup) -> Result<Option<Checkpoint>, CheckpointError>;

    /// Lists the checkpoints of a namespace, newest first.
    async fn list(&self, query: &HistoryQuery) -> Result<Vec<Checkpoint>, CheckpointError>;

    /// Lists the names of all threads, sorted.
    async fn threads(&self) -> Result<Vec<String>, CheckpointError>;

    /// Lists the namespaces of a thread with the number of checkpoints in each, sorted.
    async fn namespaces(&self, thread: &str) -> Result<Vec<(String, usize)>, CheckpointError>;

    /// Deletes a thread with all its namespaces. Does nothing if the thread does not exist.
    async fn delete_thread(&self, thread: &str) -> Result<(), CheckpointError>;

    /// Deletes all checkpoints written by these runs, in all threads.
    async fn delete_runs(&self, runs: &[String]) -> Result<(), CheckpointError>;

    /// Copies a thread with all its namespaces to a new thread.
    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), CheckpointError>;

    /// Deletes old checkpoints of these threads. Keeps the newest checkpoint in each namespace and all data that the
    /// remaining checkpoints need.
    ///
    /// Deleting a step also deletes the namespaces of the subgraph invocations that belong to the step: see
    /// [`Header::is_orphaned`](crate::checkpoint::Header::is_orphaned).
    async fn prune(&self, threads: &[String], keep: Keep) -> Result<PruneStats, CheckpointError>;
}

/// A lease on a thread. Dropping it releases the thread.
pub struct Lease(#[expect(dead_code, reason = "kept for its Drop")] Box<dyn Send + Sync>);

impl Lease {
    /// Creates a lease that is released when `guard` is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lease")
    }
}
