//! Tests the suite itself. Each saver has one fault, which the suite must detect.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use graph_core::checkpoint::{
    Change, Checkpoint, CheckpointError, CheckpointKey, CheckpointWrite, Checkpointer,
    HistoryQuery, Keep, Lease, Lookup, MemorySaver, NewCheckpoint, PruneStats, TaskEvent, TaskId,
    TaskRecord,
};
use serde_json::{Value, json};

use crate::report::Report;

#[tokio::test]
async fn the_suite_detects_every_fault() {
    for (fault, detected_by) in FAULTS {
        let report = report(*fault).await;
        let detected = report.failed.iter().any(|it| it.check == *detected_by);
        assert!(detected, "{fault:?} is not detected by `{detected_by}`: {report}");
        // Most checks must still pass, because a suite in which every check fails would also detect every fault.
        assert!(report.passed.len() > 50, "{fault:?}: {report}");
    }
}

#[tokio::test]
async fn a_panic_and_an_unexpected_error_are_failures() {
    let report = report(Fault::PanicsOnThreads).await;
    let failure = report.failed.iter().find(|it| it.check == "threads: an empty saver lists none");
    assert_eq!(failure.unwrap().problem, "panicked: injected panic");
    let text = report.to_string();
    assert!(text.contains("\n- threads: an empty saver lists none\n  panicked"), "{text}");
}

#[test]
fn check_names_are_unique() {
    let mut names: Vec<_> = super::checks().map(|it| it.name()).collect();
    let n = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), n);
    assert!(names.iter().all(|it| it.contains(": ")));
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    ForgetsExtends,
    IgnoresHead,
    ReplacesDone,
    ClearsToNull,
    RoundsFloats,
    RejectsSecondPut,
    LosesEarlyRecords,
    ReversesRecords,
    LeasesTwice,
    IgnoresLimit,
    IgnoresBefore,
    IgnoresMetadata,
    ListsOldestFirst,
    MixesNamespaces,
    PrunesAll,
    DeletesOnlyRoot,
    OverwritesOnCopy,
    PanicsOnThreads,
}

const FAULTS: &[(Fault, &str)] = &[
    (Fault::ForgetsExtends, "changes: `extend` appends in order"),
    (Fault::IgnoresHead, "head check: a second initial checkpoint is rejected"),
    (Fault::ReplacesDone, "slots: a second `done` event is ignored"),
    (Fault::ClearsToNull, "changes: `clear` removes the value"),
    (Fault::RoundsFloats, "values: floats keep full precision"),
    (Fault::RejectsSecondPut, "put: putting twice is not an error and changes nothing"),
    (Fault::LosesEarlyRecords, "records: they may be stored before their checkpoint"),
    (Fault::ReversesRecords, "records: the order within one call is kept"),
    (Fault::LeasesTwice, "lease: a second lease is rejected"),
    (Fault::IgnoresLimit, "list: a limit of n returns the n newest"),
    (Fault::IgnoresBefore, "list: `before` excludes the checkpoint itself and all newer ones"),
    (Fault::IgnoresMetadata, "list: metadata filters checkpoints"),
    (Fault::ListsOldestFirst, "list: the newest comes first"),
    (Fault::MixesNamespaces, "list: other namespaces are excluded"),
    (Fault::PrunesAll, "prune: a count of 0 still keeps the newest one"),
    (Fault::DeletesOnlyRoot, "delete_thread: all its namespaces are deleted"),
    (Fault::OverwritesOnCopy, "copy_thread: an existing thread is not overwritten"),
    (Fault::PanicsOnThreads, "threads: an empty saver lists none"),
];

async fn report(fault: Fault) -> Report {
    super::run(|| async move {
        let saver = FaultySaver { inner: MemorySaver::new(), fault, last_done: Mutex::default() };
        Arc::new(saver) as Arc<dyn Checkpointer>
    })
    .await
}

#[derive(Debug)]
struct FaultySaver {
    inner: MemorySaver,
    fault: Fault,
    last_done: Mutex<BTreeMap<(CheckpointKey, TaskId), TaskEvent>>,
}

impl FaultySaver {
    fn corrupt_changes(&self, checkpoint: &mut NewCheckpoint) {
        for (_, change) in &mut checkpoint.changes {
            match (self.fault, &mut *change) {
                (Fault::ForgetsExtends, Change::Extend(items)) => items.clear(),
                (Fault::ClearsToNull, Change::Clear) => *change = Change::Set(Value::Null),
                (Fault::RoundsFloats, Change::Set(value)) => round(value),
                _ => {}
            }
        }
    }

    fn corrupt_read(&self, mut checkpoint: Checkpoint) -> Checkpoint {
        if self.fault == Fault::ReversesRecords {
            checkpoint.records.reverse();
        }
        let last_done = self.last_done.lock().unwrap();
        for record in &mut checkpoint.records {
            let last = last_done.get(&(checkpoint.key.clone(), record.task));
            if let (TaskEvent::Done { .. }, Some(last)) = (&record.event, last) {
                record.event = last.clone();
            }
        }
        checkpoint
    }

    async fn corrupt_and_put(&self, mut checkpoint: NewCheckpoint) -> Result<(), CheckpointError> {
        self.corrupt_changes(&mut checkpoint);
        let key = &checkpoint.key;
        if self.fault == Fault::IgnoresHead {
            let head = self.inner.get(&Lookup::head(&key.thread, &key.namespace)).await?;
            checkpoint.expected_head = head.map(|it| it.key.id);
        }
        if self.fault == Fault::RejectsSecondPut && self.exists(&checkpoint.key).await {
            return Err(CheckpointError::HeadMoved { thread: checkpoint.key.thread });
        }
        self.inner.put(checkpoint).await
    }

    async fn corrupt_and_record(
        &self,
        at: &CheckpointKey,
        records: Vec<TaskRecord>,
    ) -> Result<(), CheckpointError> {
        if self.fault == Fault::LosesEarlyRecords && !self.exists(at).await {
            return Ok(());
        }
        if self.fault == Fault::ReplacesDone {
            let dones = records.iter().filter(|it| matches!(it.event, TaskEvent::Done { .. }));
            let dones = dones.map(|it| ((at.clone(), it.task), it.event.clone()));
            self.last_done.lock().unwrap().extend(dones);
        }
        self.inner.record(at, records).await
    }

    async fn exists(&self, at: &CheckpointKey) -> bool {
        let at = Lookup::exact(&at.thread, &at.namespace, at.id);
        self.inner.get(&at).await.unwrap().is_some()
    }
}

fn round(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(round),
        Value::Number(it) if it.is_f64() => *value = json!(it.as_f64().unwrap() as f32),
        _ => {}
    }
}

#[async_trait]
impl Checkpointer for FaultySaver {
    async fn lease(&self, thread: &str) -> Result<Lease, CheckpointError> {
        match self.fault {
            Fault::LeasesTwice => Ok(Lease::new(())),
            _ => self.inner.lease(thread).await,
        }
    }

    async fn write(&self, writes: Vec<CheckpointWrite>) -> Result<(), CheckpointError> {
        for write in writes {
            match write {
                CheckpointWrite::Put(checkpoint) => self.corrupt_and_put(*checkpoint).await?,
                CheckpointWrite::Record(at, records) => {
                    self.corrupt_and_record(&at, records).await?;
                }
            }
        }
        Ok(())
    }

    async fn get(&self, at: &Lookup) -> Result<Option<Checkpoint>, CheckpointError> {
        Ok(self.inner.get(at).await?.map(|it| self.corrupt_read(it)))
    }

    async fn list(&self, query: &HistoryQuery) -> Result<Vec<Checkpoint>, CheckpointError> {
        let mut query = query.clone();
        match self.fault {
            Fault::IgnoresLimit => query.limit = None,
            Fault::IgnoresBefore => query.before = None,
            Fault::IgnoresMetadata => query.metadata.clear(),
            Fault::MixesNamespaces => query.namespace.clear(),
            _ => {}
        }
        let mut found = self.inner.list(&query).await?;
        if self.fault == Fault::ListsOldestFirst {
            found.reverse();
        }
        Ok(found.into_iter().map(|it| self.corrupt_read(it)).collect())
    }

    async fn threads(&self) -> Result<Vec<String>, CheckpointError> {
        assert!(self.fault != Fault::PanicsOnThreads, "injected panic");
        self.inner.threads().await
    }

    async fn namespaces(&self, thread: &str) -> Result<Vec<(String, usize)>, CheckpointError> {
        self.inner.namespaces(thread).await
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), CheckpointError> {
        let namespaces = self.inner.namespaces(thread).await?;
        if self.fault == Fault::DeletesOnlyRoot && namespaces.len() > 1 {
            return Ok(());
        }
        self.inner.delete_thread(thread).await
    }

    async fn delete_runs(&self, runs: &[String]) -> Result<(), CheckpointError> {
        self.inner.delete_runs(runs).await
    }

    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), CheckpointError> {
        if self.fault == Fault::OverwritesOnCopy && from != to {
            self.inner.delete_thread(to).await?;
        }
        self.inner.copy_thread(from, to).await
    }

    async fn prune(&self, threads: &[String], keep: Keep) -> Result<PruneStats, CheckpointError> {
        if self.fault == Fault::PrunesAll && keep == Keep::Newest(0) {
            for thread in threads {
                self.inner.delete_thread(thread).await?;
            }
        }
        self.inner.prune(threads, keep).await
    }
}
