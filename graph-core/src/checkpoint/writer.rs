//! Sends the checkpoints and records of a run to the checkpointer.
//!
//! A run and its subgraphs share one writer, which stores their writes in order. After a crash, the stored data is
//! therefore a prefix of the run's writes.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use crate::{
    checkpoint::{
        error::CheckpointError,
        record::TaskRecord,
        saver::{Checkpointer, Lease},
        stored::{CheckpointKey, CheckpointWrite},
    },
    spans,
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Determines when a run's checkpoints are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Each checkpoint is stored before the next step starts. A crash loses at most the current step.
    Sync,
    /// Checkpoints are queued and stored in order while the next step runs. A crash may also lose steps that are still
    /// queued. If a run is dropped, its lease is held until the queued checkpoints are stored, so another run may
    /// briefly find the thread busy.
    #[default]
    Async,
    /// One checkpoint is stored when the run completes, stops, fails or is interrupted. A crash loses the whole run.
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
        durability: Durability,
        lease: Lease,
    ) -> (Self, Closer) {
        let failed = Arc::new(OnceLock::new());
        let (queue, closer) = match durability {
            Durability::Async => {
                let (queue, ops) = mpsc::channel(QUEUE_CAPACITY);
                let (alive, ended) = oneshot::channel();
                tokio::spawn(run_queue(saver.clone(), ops, failed.clone(), lease, ended));
                let closer =
                    Closer { queue: Some(queue.clone()), lease: None, _alive: Some(alive) };
                (Some(queue), closer)
            }
            Durability::Sync | Durability::Exit => {
                (None, Closer { queue: None, lease: Some(lease), _alive: None })
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
        self.check()
            .err()
            .unwrap_or_else(|| CheckpointError::Storage(Arc::from(BoxError::from(problem))))
    }

    fn check(&self) -> Result<(), CheckpointError> {
        self.failed.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

/// Closes the writer of a run and releases its lease.
#[derive(Debug)]
pub(crate) struct Closer {
    queue: Option<mpsc::Sender<Op>>,
    lease: Option<Lease>,
    /// Dropped together with the run. Dropping it closes the queue even if a leaked context still holds a sender.
    _alive: Option<oneshot::Sender<()>>,
}

impl Closer {
    /// Returns once everything is stored and the lease is released.
    pub(crate) async fn close(self) {
        drop(self.lease);
        if let Some(queue) = self.queue {
            let (done, closed) = oneshot::channel();
            if queue.send(Op::Close(done)).await.is_ok() {
                let _ = closed.await;
            }
        }
    }
}

async fn store(
    saver: &dyn Checkpointer,
    writes: Vec<CheckpointWrite>,
) -> Result<(), CheckpointError> {
    spans::instrument(spans::checkpoint(writes.len()), saver.write(writes)).await
}

/// Stores queued writes in order. After a failure, stores nothing more, so that the stored data has no gap.
///
/// All writes that arrive while a batch is being stored form the next batch.
async fn run_queue(
    saver: Arc<dyn Checkpointer>,
    mut ops: mpsc::Receiver<Op>,
    failed: Arc<OnceLock<CheckpointError>>,
    lease: Lease,
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
            return;
        }
        let (mut writes, mut flushed, mut closed) = (Vec::new(), Vec::new(), None);
        for op in batch.drain(..) {
            match op {
                Op::Write(write) => writes.push(write),
                Op::Flush(done) => flushed.push(done),
                Op::Close(done) => closed = Some(done),
            }
        }
        if failed.get().is_none() && !writes.is_empty() {
            if let Err(error) = store(&*saver, writes).await {
                let _ = failed.set(error);
            }
        }
        for done in flushed {
            let _ = done.send(());
        }
        if let Some(done) = closed {
            // The acknowledgement is sent last, because the caller may close the saver's database as soon as it
            // arrives.
            drop((lease, saver));
            let _ = done.send(());
            return;
        }
    }
}
