//! A checkpointer that writes through the queue of a run.

use std::time::Duration;

use async_trait::async_trait;

use crate::checkpoint::{
    error::CheckpointError,
    id::CheckpointId,
    query::{HistoryQuery, Keep, Lookup, PruneStats},
    saver::{Checkpointer, Lease},
    stored::{Checkpoint, CheckpointWrite},
    writer::CheckpointWriter,
};

/// Stores the checkpoints of a subgraph in another process. Its writes are queued in order with the other writes of the
/// run, and a read waits until all queued writes are stored. The other process is not trusted: a write that cannot be
/// stored fails, but does not affect the other writes of the run.
#[derive(Debug)]
pub(super) struct QueuedCheckpointer {
    pub(super) writer: CheckpointWriter,
    /// The newest checkpoint of the enclosing graphs.
    pub(super) newest: Option<CheckpointId>,
}

/// Maximum time by which the clock of the other process may be ahead of both the clock of this process and the newest
/// checkpoint of the enclosing graphs.
const MAX_TIME_AHEAD: Duration = Duration::from_secs(600);

/// Makes later checkpoints of the parent's run newer than a checkpoint of the subgraph, even if the clock of the other
/// process is ahead. Time travel depends on this order.
fn follow_clock(id: CheckpointId, newest: Option<CheckpointId>) -> Result<(), CheckpointError> {
    let ahead = id.time_ahead();
    // The thread may have been written by a process whose clock was ahead.
    let thread_ahead = newest.map_or(Duration::ZERO, CheckpointId::time_ahead);
    if ahead > MAX_TIME_AHEAD.saturating_add(thread_ahead) {
        let problem = format!(
            "the clock of the process that runs the subgraph is {ahead:?} ahead; correct it"
        );
        return Err(CheckpointError::storage(problem));
    }
    CheckpointId::advance_past(id);
    Ok(())
}

#[async_trait]
impl Checkpointer for QueuedCheckpointer {
    async fn lease(&self, _: &str) -> Result<Lease, CheckpointError> {
        // The run of the parent holds the lease of the thread.
        Ok(Lease::new(()))
    }

    async fn write(&self, writes: Vec<CheckpointWrite>) -> Result<(), CheckpointError> {
        for write in &writes {
            if let CheckpointWrite::Put(checkpoint) = write {
                follow_clock(checkpoint.key.id, self.newest)?;
            }
        }
        self.writer.write_isolated(writes).await
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

#[cfg(test)]
mod tests {
    use super::{CheckpointId, follow_clock};

    /// Returns an id that is this many minutes ahead of a new id.
    fn minutes_ahead(minutes: u128) -> CheckpointId {
        let now = u128::from_be_bytes(CheckpointId::next().to_bytes());
        CheckpointId::from_bytes((now + ((minutes * 60_000) << 80)).to_be_bytes())
    }

    #[test]
    fn clock_may_be_slightly_ahead_of_the_thread() {
        assert!(follow_clock(minutes_ahead(60), None).is_err());
        let newest = minutes_ahead(55);
        assert!(follow_clock(minutes_ahead(70), Some(newest)).is_err());
        follow_clock(minutes_ahead(60), Some(newest)).unwrap();
        assert!(CheckpointId::next() > newest);
    }
}
