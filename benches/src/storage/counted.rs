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
pub struct Counted {
    commits: AtomicUsize,
    bytes: AtomicUsize,
}

impl Counted {
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

    fn count<'a>(&self, writes: impl IntoIterator<Item = Counting<'a>>) {
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
enum Counting<'a> {
    Put(&'a Place, &'a Header, &'a Cursor, &'a [(String, Change)]),
    Record(&'a Place, &'a [TaskRecord]),
}

impl<'a> Counting<'a> {
    fn put(checkpoint: &'a NewCheckpoint) -> Self {
        let NewCheckpoint { place, header, cursor, changes, .. } = checkpoint;
        Self::Put(place, header, cursor, changes)
    }
}

#[async_trait]
impl Way for Counted {
    async fn write(
        &self,
        to: &dyn Checkpointer,
        writes: Vec<Write>,
    ) -> Result<(), CheckpointError> {
        self.count(writes.iter().map(|it| match it {
            Write::Put(checkpoint) => Counting::put(checkpoint),
            Write::Record(at, records) => Counting::Record(at, records),
        }));
        to.write(writes).await
    }
}

#[cfg(test)]
mod tests {
    use graph_core::MemorySaver;

    use super::*;
    use crate::storage::{Load, chat};

    #[tokio::test]
    async fn a_step_is_one_commit() {
        let counted = Arc::new(Counted::before(Arc::new(MemorySaver::new())));
        let load = Load { threads: 2, steps: 10, message: 100 };
        chat::run(&chat::graph(counted.clone()), "chat", load).await;
        // Each thread stores its input and START beside its steps.
        assert_eq!(counted.way().commits(), 2 * (10 + 2));
        assert!(counted.way().bytes() > 2 * 10 * 100, "{}", counted.way().bytes());
    }
}
