//! Wraps the run's checkpointer, so that storage failures can be distinguished from guest failures. A
//! guest failure fails only its debate, but a storage failure fails the whole run.
//!
//! The answer to a model call of a debate arrives twice: from the host, before the guest receives it, and from the
//! guest, which records it in its own task. Only the first one is stored.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use async_trait::async_trait;
use graph_core::checkpoint::{
    Checkpoint, CheckpointError, CheckpointId, CheckpointKey, CheckpointWrite, Checkpointer,
    HistoryQuery, Keep, Lease, Lookup, PruneStats, TaskEvent, TaskId, TaskRecord,
};

/// A checkpointer that remembers the first storage failure. Errors that a guest can cause, such as a write that is
/// based on an outdated checkpoint, are not storage failures.
#[derive(Debug)]
pub struct MonitoredSaver {
    inner: Arc<dyn Checkpointer>,
    failure: OnceLock<CheckpointError>,
    /// The answers that were stored: their namespace, checkpoint, task and key.
    stored_answers: Mutex<BTreeSet<(String, CheckpointId, TaskId, String)>>,
}

impl MonitoredSaver {
    /// Wraps a checkpointer.
    pub fn new(inner: Arc<dyn Checkpointer>) -> Self {
        Self { inner, failure: OnceLock::new(), stored_answers: Mutex::default() }
    }

    /// Returns the first storage failure, if there was one.
    pub(super) fn storage_failure(&self) -> Option<&CheckpointError> {
        self.failure.get()
    }

    /// Removes the answers that are already stored. Counts an answer as stored before it is written, because a failed
    /// write fails the run.
    fn without_stored_answers(&self, mut writes: Vec<CheckpointWrite>) -> Vec<CheckpointWrite> {
        let mut stored = self.stored_answers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_new = |at: &CheckpointKey, record: &TaskRecord| match &record.event {
            TaskEvent::Effect { key, .. } => {
                stored.insert((at.namespace.clone(), at.id, record.task, key.clone()))
            }
            _ => true,
        };
        writes.retain_mut(|write| match write {
            CheckpointWrite::Record(at, records) => {
                records.retain(|it| is_new(at, it));
                !records.is_empty()
            }
            CheckpointWrite::Put(_) => true,
        });
        writes
    }

    fn record_failure<T>(&self, result: Result<T, CheckpointError>) -> Result<T, CheckpointError> {
        if let Err(error @ CheckpointError::Storage(_)) = &result {
            self.failure.get_or_init(|| error.clone());
        }
        result
    }
}

#[async_trait]
impl Checkpointer for MonitoredSaver {
    async fn lease(&self, thread: &str) -> Result<Lease, CheckpointError> {
        self.record_failure(self.inner.lease(thread).await)
    }

    async fn write(&self, writes: Vec<CheckpointWrite>) -> Result<(), CheckpointError> {
        self.record_failure(self.inner.write(self.without_stored_answers(writes)).await)
    }

    async fn get(&self, at: &Lookup) -> Result<Option<Checkpoint>, CheckpointError> {
        self.record_failure(self.inner.get(at).await)
    }

    async fn list(&self, query: &HistoryQuery) -> Result<Vec<Checkpoint>, CheckpointError> {
        self.record_failure(self.inner.list(query).await)
    }

    async fn threads(&self) -> Result<Vec<String>, CheckpointError> {
        self.record_failure(self.inner.threads().await)
    }

    async fn namespaces(&self, thread: &str) -> Result<Vec<(String, usize)>, CheckpointError> {
        self.record_failure(self.inner.namespaces(thread).await)
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), CheckpointError> {
        self.record_failure(self.inner.delete_thread(thread).await)
    }

    async fn delete_runs(&self, runs: &[String]) -> Result<(), CheckpointError> {
        self.record_failure(self.inner.delete_runs(runs).await)
    }

    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), CheckpointError> {
        self.record_failure(self.inner.copy_thread(from, to).await)
    }

    async fn prune(&self, threads: &[String], keep: Keep) -> Result<PruneStats, CheckpointError> {
        self.record_failure(self.inner.prune(threads, keep).await)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

    use graph_core::{
        MemorySaver,
        checkpoint::{
            CheckpointId, CheckpointKey, CheckpointWrite, Checkpointer, FrontierRecord, Header,
            Lookup, NewCheckpoint, Source, TaskEvent, TaskId, TaskRecord,
        },
    };
    use serde_json::{Map, json};

    use super::MonitoredSaver;

    fn checkpoint(key: CheckpointKey) -> NewCheckpoint {
        NewCheckpoint {
            header: Header {
                parent: None,
                origin: key.id,
                step: 0,
                source: Source::Loop,
                created_at: SystemTime::now(),
                run: "r".to_owned(),
                version: 1,
                parents: BTreeMap::new(),
                metadata: Map::new(),
            },
            key,
            expected_head: None,
            base: None,
            frontier: FrontierRecord::default(),
            changes: Vec::new(),
        }
    }

    fn answer(task: &str, key: &str) -> TaskRecord {
        let event = TaskEvent::Effect { key: key.to_owned(), result: json!("No.") };
        let task = TaskId::from_parts(&[task.as_bytes()]);
        TaskRecord { task, node: "critic_round_1".to_owned(), event }
    }

    #[tokio::test]
    async fn answers_are_stored_once_per_task_and_key() {
        let saver = MonitoredSaver::new(Arc::new(MemorySaver::new()));
        let [thread, namespace] = ["pipeline", "debate"].map(str::to_owned);
        let key = CheckpointKey { thread, namespace, id: CheckpointId::next() };
        saver.put(checkpoint(key.clone())).await.unwrap();
        let store = async |records: Vec<TaskRecord>| {
            saver.write(vec![CheckpointWrite::Record(key.clone(), records)]).await.unwrap();
        };
        store(vec![answer("one", "opening")]).await;
        store(vec![answer("one", "opening")]).await;
        store(vec![answer("one", "opening"), answer("one", "D1"), answer("two", "D1")]).await;
        let stored = saver.get(&Lookup::head("pipeline", "debate")).await.unwrap().unwrap();
        let expected = [answer("one", "opening"), answer("one", "D1"), answer("two", "D1")];
        assert_eq!(stored.records, expected);
    }
}
