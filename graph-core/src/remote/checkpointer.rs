//! A checkpointer that writes through the queue of a run.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::checkpoint::{
    error::CheckpointError,
    id::CheckpointId,
    query::{HistoryQuery, Keep, Lookup, PruneStats},
    record::{TaskEvent, TaskRecord},
    saver::{Checkpointer, Lease},
    stored::{Checkpoint, CheckpointKey, CheckpointWrite, NewCheckpoint},
    writer::CheckpointWriter,
};

/// Stores the checkpoints of a subgraph in another process. Its writes are queued in order with the other writes of the
/// run, and it reads only after the queue is stored.
#[derive(Debug)]
pub(super) struct QueuedCheckpointer {
    pub(super) writer: CheckpointWriter,
}

/// Maximum time by which the clock of the other process may be ahead of the clock of this process.
const MAX_TIME_AHEAD: Duration = Duration::from_secs(600);

/// Makes later checkpoints of the parent's run newer than a checkpoint of the subgraph, even if the clock of the other
/// process is ahead. Time travel depends on this order.
fn follow_clock(id: CheckpointId) -> Result<(), CheckpointError> {
    let ahead = id.time_ahead();
    if ahead > MAX_TIME_AHEAD {
        let problem = format!(
            "the clock of the process that runs the subgraph is {ahead:?} ahead; correct it"
        );
        return Err(CheckpointError::Storage(Arc::from(BoxError::from(problem))));
    }
    CheckpointId::advance_past(id);
    Ok(())
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[async_trait]
impl Checkpointer for QueuedCheckpointer {
    async fn lease(&self, _: &str) -> Result<Lease, CheckpointError> {
        // The run of the parent holds the lease of the thread.
        Ok(Lease::new(()))
    }

    async fn put(&self, checkpoint: NewCheckpoint) -> Result<(), CheckpointError> {
        self.write(vec![CheckpointWrite::Put(Box::new(checkpoint))]).await
    }

    async fn record(
        &self,
        at: &CheckpointKey,
        records: Vec<TaskRecord>,
    ) -> Result<(), CheckpointError> {
        self.write(vec![CheckpointWrite::Record(at.clone(), records)]).await
    }

    async fn write(&self, writes: Vec<CheckpointWrite>) -> Result<(), CheckpointError> {
        for write in &writes {
            if let CheckpointWrite::Put(checkpoint) = write {
                follow_clock(checkpoint.key.id)?;
            }
        }
        // The result of an external call must be stored before the node receives it.
        let is_effect = |it: &TaskRecord| matches!(it.event, TaskEvent::Effect { .. });
        let has_effect = writes.iter().any(|it| match it {
            CheckpointWrite::Record(_, records) => records.iter().any(is_effect),
            CheckpointWrite::Put(_) => false,
        });
        self.writer.write(writes).await?;
        if has_effect { self.writer.flush().await } else { Ok(()) }
    }

    async fn get(&self, at: &Lookup) -> Result<Option<Checkpoint>, CheckpointError> {
        self.writer.flush().await?;
        self.writer.saver.get(at).await
    }

    async fn list(&self, query: &HistoryQuery) -> Result<Vec<Checkpoint>, CheckpointError> {
        self.writer.flush().await?;
        self.writer.saver.list(query).await
    }

    async fn namespaces(&self, thread: &str) -> Result<Vec<(String, usize)>, CheckpointError> {
        self.writer.flush().await?;
        self.writer.saver.namespaces(thread).await
    }

    async fn threads(&self) -> Result<Vec<String>, CheckpointError> {
        self.writer.saver.threads().await
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), CheckpointError> {
        self.writer.saver.delete_thread(thread).await
    }

    async fn delete_runs(&self, runs: &[String]) -> Result<(), CheckpointError> {
        self.writer.saver.delete_runs(runs).await
    }

    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), CheckpointError> {
        self.writer.saver.copy_thread(from, to).await
    }

    async fn prune(&self, threads: &[String], keep: Keep) -> Result<PruneStats, CheckpointError> {
        self.writer.saver.prune(threads, keep).await
    }
}
