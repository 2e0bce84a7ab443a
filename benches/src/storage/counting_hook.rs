//! Counts the writes that the engine requires to be durable. Their number is the number of fsyncs that cannot be
//! avoided.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use async_trait::async_trait;
use checkpoint_testkit::{HookedSaver, WriteHook};
use graph_core::checkpoint::{
    Change, CheckpointError, CheckpointKey, CheckpointWrite, Checkpointer, FrontierRecord, Header,
    NewCheckpoint, TaskRecord,
};
use serde::Serialize;

/// A hook that counts the writes to a checkpointer.
#[derive(Debug, Default)]
pub(crate) struct CountingHook {
    commits: AtomicUsize,
    bytes: AtomicUsize,
}

impl CountingHook {
    /// Wraps a checkpointer with counters that start at zero.
    pub(crate) fn before(inner: Arc<dyn Checkpointer>) -> HookedSaver<Self> {
        HookedSaver::new(inner, Self::default())
    }

    /// Returns the number of writes that had to be durable before the run could continue.
    pub(crate) fn commits(&self) -> usize {
        self.commits.load(Relaxed)
    }

    /// Returns the total size of all writes when encoded as JSON, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    fn count<'a>(&self, writes: impl IntoIterator<Item = CountedWrite<'a>>) {
        self.commits.fetch_add(1, Relaxed);
        for write in writes {
            let json = serde_json::to_vec(&write).expect("stored values are representable as JSON");
            self.bytes.fetch_add(json.len(), Relaxed);
        }
    }
}

/// The part of a write that is counted.
#[derive(Serialize)]
#[serde(untagged)]
enum CountedWrite<'a> {
    Put(&'a CheckpointKey, &'a Header, &'a FrontierRecord, &'a [(String, Change)]),
    Record(&'a CheckpointKey, &'a [TaskRecord]),
}

impl<'a> CountedWrite<'a> {
    fn put(checkpoint: &'a NewCheckpoint) -> Self {
        let NewCheckpoint { key, header, frontier, changes, .. } = checkpoint;
        Self::Put(key, header, frontier, changes)
    }
}

#[async_trait]
impl WriteHook for CountingHook {
    async fn write(
        &self,
        to: &dyn Checkpointer,
        writes: Vec<CheckpointWrite>,
    ) -> Result<(), CheckpointError> {
        self.count(writes.iter().map(|it| match it {
            CheckpointWrite::Put(checkpoint) => CountedWrite::put(checkpoint),
            CheckpointWrite::Record(at, records) => CountedWrite::Record(at, records),
        }));
        to.write(writes).await
    }
}

#[cfg(test)]
mod tests {
    use graph_core::MemorySaver;

    use super::*;
    use crate::storage::{chat, workload::StorageLoad};

    #[tokio::test]
    async fn each_step_is_counted_as_one_commit() {
        let counting_hook = Arc::new(CountingHook::before(Arc::new(MemorySaver::new())));
        let load = StorageLoad { threads: 2, steps: 10, message: 100 };
        chat::run(&chat::graph(counting_hook.clone()), "chat", load).await;
        // Each of the two threads stores its ten steps, its input and START.
        assert_eq!(counting_hook.hook().commits(), 2 * (10 + 2));
        assert!(counting_hook.hook().bytes() > 2 * 10 * 100, "{}", counting_hook.hook().bytes());
    }
}
