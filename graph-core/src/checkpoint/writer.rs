//! Sends the checkpoints and records of a run to the checkpointer.
//!
//! A run and its subgraphs share one writer, which stores their writes in order. After a crash, the stored data is
//! therefore a prefix of the run's writes.

use std::sync::{Arc, Mutex, OnceLock};

use serde::{Deserialize, Serialize};
use tokio::{
    runtime::{self, Handle},
    sync::{mpsc, oneshot, watch},
};

use crate::{
    checkpoint::{
        error::CheckpointError,
        record::TaskRecord,
        saver::{Checkpointer, Lease},
        stored::{CheckpointKey, CheckpointWrite},
    },
    spans,
    sync::lock,
};

/// Determines when a run's checkpoints are stored.
///
/// ```
/// use graph_core::{Durability, RunOptions};
///
/// let options = RunOptions::new().durability(Durability::Sync);
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Each checkpoint is stored before the next step starts. A crash loses at most the current step.
    Sync,
    /// Checkpoints are queued and stored in order while the next step runs. A crash may also lose steps that are still
    /// queued. If a run is dropped, its lease is held until the queued checkpoints are stored. Other runs of the same
    /// process wait for that, and so do reads of the thread on the same tokio runtime; another process may briefly find
    /// the thread busy.
    #[default]
    Async,
    /// One checkpoint is stored when the run completes, stops, fails or is interrupted. A crash loses the whole run.
    ///
    /// A value that cannot be stored, because it cannot be serialised or is nested too deeply, is reported when the run
    /// ends, not by the node that wrote it: the run fails with an error that names the field, and nothing of the run is
    /// stored. The node fails instead if its result is needed earlier, for example by the reader of a stream, or if its
    /// step does not complete.
    Exit,
}

/// Writes the checkpoints and records of a run. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointWriter {
    pub(crate) saver: Arc<dyn Checkpointer>,
    pub(crate) durability: Durability,
    queue: Option<mpsc::Sender<Op>>,
    failed: Arc<OnceLock<CheckpointError>>,
}

#[derive(Debug)]
enum Op {
    Write(CheckpointWrite),
    /// Writes that are stored in a separate batch. Only their sender receives an error.
    WriteIsolated(Vec<CheckpointWrite>, oneshot::Sender<Result<(), CheckpointError>>),
    Flush(oneshot::Sender<()>),
    /// Closes the queue and releases the lease.
    Close(oneshot::Sender<()>),
}

/// Maximum number of queued writes before the run waits (back-pressure).
const QUEUE_CAPACITY: usize = 256;

impl CheckpointWriter {
    /// Creates the writer of a run, and a closer that releases the run's lease once all writes are stored.
    pub(crate) fn new(
        saver: Arc<dyn Checkpointer>,
        thread: &str,
        durability: Durability,
        lease: Lease,
    ) -> (Self, Closer) {
        let failed = Arc::new(OnceLock::new());
        let (queue, closer) = match durability {
            Durability::Async => {
                let (queue, ops) = mpsc::channel(QUEUE_CAPACITY);
                let (alive, ended) = oneshot::channel();
                let (held, released) = watch::channel(());
                let lease = HeldLease { lease, _held: held };
                tokio::spawn(run_queue(saver.clone(), ops, failed.clone(), lease, ended));
                let runtime = Handle::current().id();
                let queue_end = QueueEnd { queue: queue.clone(), runtime, released, _alive: alive };
                (
                    Some(queue),
                    Closer { thread: thread.to_owned(), lease: None, queue: Some(queue_end) },
                )
            }
            Durability::Sync | Durability::Exit => {
                (None, Closer { thread: thread.to_owned(), lease: Some(lease), queue: None })
            }
        };
        (Self { saver, durability, queue, failed }, closer)
    }

    /// Stores the writes in order. With async durability, returns as soon as the writes are queued.
    pub(crate) async fn write(&self, writes: Vec<CheckpointWrite>) -> Result<(), CheckpointError> {
        match &self.queue {
            None => store(&*self.saver, writes).await,
            Some(queue) => {
                for write in writes {
                    self.enqueue(queue, Op::Write(write)).await?;
                }
                Ok(())
            }
        }
    }

    /// Stores the writes in order with the other writes of the run, and waits until they are stored. Unlike a failed
    /// [`write`](Self::write), a failure does not affect later writes.
    pub(crate) async fn write_isolated(
        &self,
        writes: Vec<CheckpointWrite>,
    ) -> Result<(), CheckpointError> {
        let Some(queue) = &self.queue else { return store(&*self.saver, writes).await };
        let (done, stored) = oneshot::channel();
        self.enqueue(queue, Op::WriteIsolated(writes, done)).await?;
        stored.await.map_err(|_| self.closed_error())?
    }

    pub(crate) async fn record(
        &self,
        key: CheckpointKey,
        records: Vec<TaskRecord>,
    ) -> Result<(), CheckpointError> {
        self.write(vec![CheckpointWrite::Record(key, records)]).await
    }

    /// Writes the records and waits until they are stored.
    pub(crate) async fn record_now(
        &self,
        key: CheckpointKey,
        records: Vec<TaskRecord>,
    ) -> Result<(), CheckpointError> {
        self.record(key, records).await?;
        self.flush().await
    }

    /// Waits until all queued writes are stored. Fails if one of them could not be stored.
    pub(crate) async fn flush(&self) -> Result<(), CheckpointError> {
        if let Some(queue) = &self.queue {
            let (done, flushed) = oneshot::channel();
            self.enqueue(queue, Op::Flush(done)).await?;
            flushed.await.map_err(|_| self.closed_error())?;
        }
        self.check()
    }

    async fn enqueue(&self, queue: &mpsc::Sender<Op>, op: Op) -> Result<(), CheckpointError> {
        self.check()?;
        queue.send(op).await.map_err(|_| self.closed_error())
    }

    /// Returns the error for a closed queue. The queue is closed if a context outlives its run or if the checkpointer
    /// panics.
    fn closed_error(&self) -> CheckpointError {
        let problem = "cannot store data because the run has ended or the checkpointer panicked";
        self.check().err().unwrap_or_else(|| CheckpointError::storage(problem))
    }

    fn check(&self) -> Result<(), CheckpointError> {
        self.failed.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

/// Closes the writer of a run and releases its lease.
#[derive(Debug)]
pub(crate) struct Closer {
    thread: String,
    /// The lease of a run without a queue.
    lease: Option<Lease>,
    queue: Option<QueueEnd>,
}

/// The sending end of a run's queue.
#[derive(Debug)]
struct QueueEnd {
    queue: mpsc::Sender<Op>,
    /// The runtime that executes the queue.
    runtime: runtime::Id,
    /// Closed when the queue has released the lease.
    released: watch::Receiver<()>,
    /// Dropped together with the run. Dropping it closes the queue even if a leaked context still holds a sender.
    _alive: oneshot::Sender<()>,
}

impl Closer {
    /// Returns once everything is stored and the lease is released.
    pub(crate) async fn close(mut self) {
        drop(self.lease.take());
        if let Some(QueueEnd { queue, .. }) = &self.queue {
            let (done, closed) = oneshot::channel();
            if queue.send(Op::Close(done)).await.is_ok() {
                let _ = closed.await;
            }
        }
        // Cleared only now: if the caller is dropped while it waits, the lease is still held, and `drop` must record
        // that.
        self.queue = None;
    }
}

impl Drop for Closer {
    /// Records the run in `ENDING` if it is dropped before [`close`](Self::close) has returned.
    fn drop(&mut self) {
        if let Some(QueueEnd { runtime, released, .. }) = self.queue.take() {
            let thread = std::mem::take(&mut self.thread);
            let mut ending = lock(&ENDING);
            ending.retain(EndingRun::holds_lease);
            ending.push(EndingRun { thread, runtime, released });
        }
    }
}

/// A dropped run whose queue still stores checkpoints under the run's lease.
struct EndingRun {
    thread: String,
    /// The runtime that executes the queue.
    runtime: runtime::Id,
    /// Closed when the queue has released the lease.
    released: watch::Receiver<()>,
}

impl EndingRun {
    fn holds_lease(&self) -> bool {
        self.released.has_changed().is_ok()
    }
}

/// The dropped runs of this process that may still hold their leases.
static ENDING: Mutex<Vec<EndingRun>> = Mutex::new(Vec::new());

/// A lease, with a channel that is closed after the lease is released.
struct HeldLease {
    lease: Lease,
    _held: watch::Sender<()>,
}

/// Leases a thread. If runs of this process were dropped and their last checkpoints are still being stored, waits until
/// the runs have released the thread.
pub(crate) async fn lease(
    saver: &dyn Checkpointer,
    thread: &str,
) -> Result<Lease, CheckpointError> {
    // Read before the attempt, because a run may release the thread right after the attempt.
    let mut ending = ending_runs(thread, None);
    loop {
        let result = saver.lease(thread).await;
        if !matches!(result, Err(CheckpointError::Busy { .. })) {
            return result;
        }
        // The run may have been dropped in the meantime.
        ending.extend(ending_runs(thread, None));
        if ending.is_empty() {
            return result;
        }
        wait_for_release(std::mem::take(&mut ending)).await;
    }
}

/// Waits until the dropped runs of this tokio runtime have stored their last checkpoints of a thread. Does not wait for
/// runs of other runtimes, because a runtime that is not driven would block the caller forever.
pub(crate) async fn wait_for_dropped_runs(thread: &str) {
    if let Ok(runtime) = Handle::try_current() {
        wait_for_release(ending_runs(thread, Some(runtime.id()))).await;
    }
}

/// Returns the channels of the dropped runs of a thread, on all runtimes or on one of them.
fn ending_runs(thread: &str, runtime: Option<runtime::Id>) -> Vec<watch::Receiver<()>> {
    let is_wanted =
        |it: &&EndingRun| it.thread == thread && runtime.is_none_or(|id| id == it.runtime);
    lock(&ENDING).iter().filter(is_wanted).map(|it| it.released.clone()).collect()
}

async fn wait_for_release(ending: Vec<watch::Receiver<()>>) {
    if ending.is_empty() {
        return;
    }
    for mut released in ending {
        // Nothing is ever sent, so this returns an error when the sender is dropped.
        let _ = released.changed().await;
    }
    lock(&ENDING).retain(EndingRun::holds_lease);
}

async fn store(
    saver: &dyn Checkpointer,
    writes: Vec<CheckpointWrite>,
) -> Result<(), CheckpointError> {
    spans::instrument(spans::checkpoint(writes.len()), saver.write(writes)).await
}

/// Stores writes of the run, unless an earlier one failed.
async fn store_batch(
    saver: &dyn Checkpointer,
    writes: Vec<CheckpointWrite>,
    failed: &OnceLock<CheckpointError>,
) {
    if failed.get().is_none() && !writes.is_empty() {
        if let Err(error) = store(saver, writes).await {
            let _ = failed.set(error);
        }
    }
}

/// Stores queued writes in order. After a failure, stores nothing more, so that the stored data has no gap.
///
/// All writes that arrive while a batch is being stored form the next batch.
async fn run_queue(
    saver: Arc<dyn Checkpointer>,
    mut ops: mpsc::Receiver<Op>,
    failed: Arc<OnceLock<CheckpointError>>,
    held: HeldLease,
    mut ended: oneshot::Receiver<()>,
) {
    let mut open = true;
    let mut batch = Vec::new();
    loop {
        let n_ops = tokio::select! {
            biased;
            n_ops = ops.recv_many(&mut batch, QUEUE_CAPACITY) => n_ops,
            _ = &mut ended, if open => {
                open = false;
                ops.close();
                continue;
            }
        };
        if n_ops == 0 {
            // The fields of `held` are dropped in order: first the lease, then the channel whose closing reports the
            // release.
            drop(held);
            return;
        }
        let (mut writes, mut flushed, mut closed) = (Vec::new(), Vec::new(), None);
        for op in batch.drain(..) {
            match op {
                Op::Write(write) => writes.push(write),
                Op::WriteIsolated(isolated, done) => {
                    store_batch(&*saver, std::mem::take(&mut writes), &failed).await;
                    let result = match failed.get() {
                        Some(error) => Err(error.clone()),
                        None => store(&*saver, isolated).await,
                    };
                    let _ = done.send(result);
                }
                Op::Flush(done) => flushed.push(done),
                Op::Close(done) => closed = Some(done),
            }
        }
        store_batch(&*saver, writes, &failed).await;
        for done in flushed {
            let _ = done.send(());
        }
        if let Some(done) = closed {
            // The acknowledgement is sent last, because the caller may close the saver's database as soon as it
            // arrives.
            drop((held.lease, saver));
            let _ = done.send(());
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::memory::MemorySaver;

    #[tokio::test]
    async fn thread_of_a_run_that_is_dropped_while_it_closes_can_be_leased() {
        let saver: Arc<dyn Checkpointer> = Arc::new(MemorySaver::new());
        let held = saver.lease("closing").await.unwrap();
        let (_writer, closer) =
            CheckpointWriter::new(saver.clone(), "closing", Durability::Async, held);
        // The future is polled once and then dropped. The queue has not run yet.
        tokio::select! {
            biased;
            () = closer.close() => unreachable!("the queue has released the lease"),
            () = std::future::ready(()) => {}
        }
        assert!(matches!(saver.lease("closing").await, Err(CheckpointError::Busy { .. })));
        lease(&*saver, "closing").await.unwrap();
    }

    #[test]
    fn reads_do_not_wait_for_a_runtime_that_is_not_driven() {
        let runtime = || runtime::Builder::new_current_thread().build().unwrap();
        let (idle, driven) = (runtime(), runtime());
        let saver: Arc<dyn Checkpointer> = Arc::new(MemorySaver::new());
        // The queue is spawned and never polled.
        idle.block_on(async {
            let held = saver.lease("idle").await.unwrap();
            drop(CheckpointWriter::new(saver.clone(), "idle", Durability::Async, held));
        });
        driven.block_on(async {
            wait_for_dropped_runs("idle").await;
            assert!(matches!(saver.lease("idle").await, Err(CheckpointError::Busy { .. })));
        });
        drop(idle);
        driven.block_on(lease(&*saver, "idle")).unwrap();
    }
}
