//! Counts what the engine asks a checkpointer to make durable: the fsyncs that nobody can do without.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use async_trait::async_trait;
use graph_core::checkpoint::{
    Change, CheckpointError, Checkpointer, Cursor, Header, NewCheckpoint, Place, TaskRecord, Write,
    testkit::{Around, Way},
};
use serde::Serialize;

/// Counts on the way to a checkpointer.
#[derive(Debug, Default)]
pub struct CountingHook {
    commits: AtomicUsize,
    bytes: AtomicUsize,
}

impl CountingHook {
    /// Counts from zero what goes to a checkpointer.
    pub fn before(inner: Arc<dyn Checkpointer>) -> Around<Self> {
        Around::new(inner, Self::default())
    }

    /// How many writes had to be durable before the run could go on.
    pub fn commits(&self) -> usize {
        self.commits.load(Relaxed)
    }

    /// How many bytes they were, as JSON.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    fn count<'a>(&self, writes: impl IntoIterator<Item = CountedWrite<'a>>) {
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
enum CountedWrite<'a> {
    Put(&'a Place, &'a Header, &'a Cursor, &'a [(String, Change)]),
    Record(&'a Place, &'a [TaskRecord]),
}

impl<'a> CountedWrite<'a> {
    fn put(checkpoint: &'a NewCheckpoint) -> Self {
        let NewCheckpoint { place, header, cursor, changes, .. } = checkpoint;
        Self::Put(place, header, cursor, changes)
    }
}

#[async_trait]
impl Way for CountingHook {
    async fn write(
        &self,
        to: &dyn Checkpointer,
        writes: Vec<Write>,
    ) -> Result<(), CheckpointError> {
        self.count(writes.iter().map(|it| match it {
            Write::Put(checkpoint) => CountedWrite::put(checkpoint),
            Write::Record(at, records) => CountedWrite::Record(at, records),
        }));
        to.write(writes).await
    }
}

#[cfg(test)]
mod tests {
    use graph_core::MemorySaver;

    use super::*;
    use crate::storage::{StorageLoad, chat};

    #[tokio::test]
    async fn a_step_is_one_commit() {
        let counting_hook = Arc::new(CountingHook::before(Arc::new(MemorySaver::new())));
        let load = StorageLoad { threads: 2, steps: 10, message: 100 };
        chat::run(&chat::graph(counting_hook.clone()), "chat", load).await;
        // Each thread stores its input and START beside its steps.
        assert_eq!(counting_hook.way().commits(), 2 * (10 + 2));
        assert!(counting_hook.way().bytes() > 2 * 10 * 100, "{}", counting_hook.way().bytes());
    }
}
