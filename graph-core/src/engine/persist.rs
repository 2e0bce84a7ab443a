//! Persist: checkpoints and records on their way to the checkpointer.
//!
//! All that one run stores, its subgraphs included, goes through one queue in order, so that what is stored is
//! always a prefix of what happened.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use crate::{
    checkpoint::{CheckpointError, Checkpointer, Lease, Place, TaskRecord, Write},
    spans,
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// When a run's checkpoints are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Before the next step starts: a crash loses at most the step it hits.
    Sync,
    /// While the next step runs, in order: a crash may also lose the steps not yet stored. A run that is dropped
    /// holds its thread until what it queued is stored, so another run may find it busy for a moment.
    #[default]
    Async,
    /// Once, when the run ends, fails or asks: a crash loses the run.
    Exit,
}

/// Where a run's checkpoints and records go. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    pub(crate) saver: Arc<dyn Checkpointer>,
    pub(crate) durability: Durability,
    queue: Option<mpsc::Sender<Op>>,
    failed: Arc<OnceLock<CheckpointError>>,
}

#[derive(Debug)]
enum Op {
    Write(Write),
    Flush(oneshot::Sender<()>),
    /// Ends the queue and gives the thread free.
    Close(oneshot::Sender<()>),
}

/// How many writes may wait before the run waits for them.
const QUEUE: usize = 256;

impl Writer {
    /// A writer for one run. The lease lives until everything queued is stored.
    pub(crate) fn new(
        saver: Arc<dyn Checkpointer>,
        durability: Durability,
        lease: Lease,
    ) -> (Self, Closer) {
        let failed = Arc::new(OnceLock::new());
        let (queue, closer) = match durability {
            Durability::Async => {
                let (queue, ops) = mpsc::channel(QUEUE);
                let (alive, ended) = oneshot::channel();
                tokio::spawn(drain(saver.clone(), ops, failed.clone(), lease, ended));
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

    /// Stores writes in order, now or in a while.
    pub(crate) async fn write(&self, writes: Vec<Write>) -> Result<(), CheckpointError> {
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
        place: Place,
        records: Vec<TaskRecord>,
    ) -> Result<(), CheckpointError> {
        self.write(vec![Write::Record(place, records)]).await
    }

    /// Records something that must be stored before anybody acts on it.
    pub(crate) async fn record_now(
        &self,
        place: Place,
        records: Vec<TaskRecord>,
    ) -> Result<(), CheckpointError> {
        self.record(place, records).await?;
        self.flush().await
    }

    /// Waits until all that was queued is stored.
    pub(crate) async fn flush(&self) -> Result<(), CheckpointError> {
        if let Some(queue) = &self.queue {
            let (done, flushed) = oneshot::channel();
            self.enqueue(queue, Op::Flush(done)).await?;
            flushed.await.map_err(|_| self.lost())?;
        }
        self.check()
    }

    async fn enqueue(&self, queue: &mpsc::Sender<Op>, op: Op) -> Result<(), CheckpointError> {
        self.check()?;
        queue.send(op).await.map_err(|_| self.lost())
    }

    /// The queue is gone: a context outlived its run, or the checkpointer panicked.
    fn lost(&self) -> CheckpointError {
        let problem = "nothing more is stored: the run is over, or the checkpointer panicked";
        self.check()
            .err()
            .unwrap_or_else(|| CheckpointError::Storage(Arc::from(BoxError::from(problem))))
    }

    fn check(&self) -> Result<(), CheckpointError> {
        self.failed.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

/// Ends a run's writing and gives its thread free.
#[derive(Debug)]
pub(crate) struct Closer {
    queue: Option<mpsc::Sender<Op>>,
    lease: Option<Lease>,
    /// Ends the queue when the run is dropped, though a context may outlive it with a sender of its own.
    _alive: Option<oneshot::Sender<()>>,
}

impl Closer {
    /// Returns once everything is stored and another run may take the thread.
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

async fn store(saver: &dyn Checkpointer, writes: Vec<Write>) -> Result<(), CheckpointError> {
    spans::within(spans::checkpoint(writes.len()), saver.write(writes)).await
}

/// Stores what comes, in order; after a failure nothing more, or there would be a gap.
///
/// All that has come while the last writes were stored is stored at once.
async fn drain(
    saver: Arc<dyn Checkpointer>,
    mut ops: mpsc::Receiver<Op>,
    failed: Arc<OnceLock<CheckpointError>>,
    lease: Lease,
    mut ended: oneshot::Receiver<()>,
) {
    let mut open = true;
    let mut come = Vec::new();
    loop {
        let n_ops = tokio::select! {
            biased;
            n_ops = ops.recv_many(&mut come, QUEUE) => n_ops,
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
        for op in come.drain(..) {
            match op {
                Op::Write(write) => writes.push(write),
                Op::Flush(done) => flushed.push(done),
                Op::Close(done) => closed = Some(done),
            }
        }
        if failed.get().is_none()
            && !writes.is_empty()
            && let Err(error) = store(&*saver, writes).await
        {
            let _ = failed.set(error);
        }
        for done in flushed {
            let _ = done.send(());
        }
        if let Some(done) = closed {
            // Told last: whoever waits for it may be the last to hold the saver, and close it.
            drop((lease, saver));
            let _ = done.send(());
            return;
        }
    }
}
