//! Whether the kit has teeth: each of these savers has one fault, and the kit must name it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::Report;
use crate::checkpoint::{
    Change, Checkpoint, CheckpointError, Checkpointer, Event, History, Keep, Lease, Lookup,
    MemorySaver, NewCheckpoint, Place, Pruned, TaskId, TaskRecord,
};

#[tokio::test]
async fn the_kit_notices_every_fault() {
    for (fault, noticed_by) in FAULTS {
        let report = report(*fault).await;
        let noticed = report.failed.iter().any(|it| it.check == *noticed_by);
        assert!(noticed, "{fault:?} is not noticed by `{noticed_by}`: {report}");
        // A kit that fails for everything would notice every fault, too.
        assert!(report.passed.len() > 50, "{fault:?}: {report}");
    }
}

#[tokio::test]
async fn a_panic_and_an_unexpected_error_are_failures() {
    let report = report(Fault::PanicsOnThreads).await;
    let failure = report.failed.iter().find(|it| it.check == "threads: an empty saver has none");
    assert_eq!(failure.unwrap().problem, "it panicked: no threads today");
    let text = report.to_string();
    assert!(text.contains("\n- threads: an empty saver has none\n  it panicked"), "{text}");
}

#[test]
fn every_check_has_its_own_name() {
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
    RefusesSecondPut,
    LosesEarlyRecords,
    ReversesRecords,
    GivesLeaseTwice,
    IgnoresLimit,
    IgnoresBefore,
    IgnoresMetadata,
    ListsOldestFirst,
    MixesNamespaces,
    PrunesAll,
    DeletesOnlyRoot,
    CopiesOver,
    PanicsOnThreads,
}

const FAULTS: &[(Fault, &str)] = &[
    (Fault::ForgetsExtends, "changes: extend appends in order"),
    (Fault::IgnoresHead, "head check: a second beginning is refused"),
    (Fault::ReplacesDone, "slots: a second done is ignored"),
    (Fault::ClearsToNull, "changes: clear takes the value away"),
    (Fault::RoundsFloats, "values: floats are kept to the last digit"),
    (Fault::RefusesSecondPut, "put: a second time is no error and changes nothing"),
    (Fault::LosesEarlyRecords, "records: they may come before their checkpoint"),
    (Fault::ReversesRecords, "records: they come in the order recorded within one call"),
    (Fault::GivesLeaseTwice, "lease: a second taker is refused"),
    (Fault::IgnoresLimit, "list: a limit gives the newest so many"),
    (Fault::IgnoresBefore, "list: before leaves out the checkpoint itself and all newer ones"),
    (Fault::IgnoresMetadata, "list: only checkpoints with the metadata"),
    (Fault::ListsOldestFirst, "list: the newest comes first"),
    (Fault::MixesNamespaces, "list: only this namespace's checkpoints"),
    (Fault::PrunesAll, "prune: the newest none still keeps one"),
    (Fault::DeletesOnlyRoot, "delete_thread: all its namespaces are gone"),
    (Fault::CopiesOver, "copy_thread: a thread that exists is not written over"),
    (Fault::PanicsOnThreads, "threads: an empty saver has none"),
];

async fn report(fault: Fault) -> Report {
    super::run(|| async move {
        let broken = Broken { inner: MemorySaver::new(), fault, last_done: Mutex::default() };
        Arc::new(broken) as Arc<dyn Checkpointer>
    })
    .await
}

#[derive(Debug)]
struct Broken {
    inner: MemorySaver,
    fault: Fault,
    last_done: Mutex<BTreeMap<(Place, TaskId), Event>>,
}

impl Broken {
    fn spoil_put(&self, checkpoint: &mut NewCheckpoint) {
        for (_, change) in &mut checkpoint.changes {
            match (self.fault, &mut *change) {
                (Fault::ForgetsExtends, Change::Extend(items)) => items.clear(),
                (Fault::ClearsToNull, Change::Clear) => *change = Change::Set(Value::Null),
                (Fault::RoundsFloats, Change::Set(value)) => round(value),
                _ => {}
            }
        }
    }

    fn spoil_read(&self, mut checkpoint: Checkpoint) -> Checkpoint {
        if self.fault == Fault::ReversesRecords {
            checkpoint.records.reverse();
        }
        let last_done = self.last_done.lock().unwrap();
        for record in &mut checkpoint.records {
            let last = last_done.get(&(checkpoint.place.clone(), record.task));
            if let (Event::Done { .. }, Some(last)) = (&record.event, last) {
                record.event = last.clone();
            }
        }
        checkpoint
    }

    async fn exists(&self, at: &Place) -> bool {
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
impl Checkpointer for Broken {
    async fn lease(&self, thread: &str) -> Result<Lease, CheckpointError> {
        match self.fault {
            Fault::GivesLeaseTwice => Ok(Lease::new(())),
            _ => self.inner.lease(thread).await,
        }
    }

    async fn put(&self, mut checkpoint: NewCheckpoint) -> Result<(), CheckpointError> {
        self.spoil_put(&mut checkpoint);
        let place = &checkpoint.place;
        if self.fault == Fault::IgnoresHead {
            let head = self.inner.get(&Lookup::head(&place.thread, &place.namespace)).await?;
            checkpoint.expected_head = head.map(|it| it.place.id);
        }
        if self.fault == Fault::RefusesSecondPut && self.exists(&checkpoint.place).await {
            return Err(CheckpointError::HeadMoved { thread: checkpoint.place.thread });
        }
        self.inner.put(checkpoint).await
    }

    async fn record(&self, at: &Place, records: Vec<TaskRecord>) -> Result<(), CheckpointError> {
        if self.fault == Fault::LosesEarlyRecords && !self.exists(at).await {
            return Ok(());
        }
        if self.fault == Fault::ReplacesDone {
            let dones = records.iter().filter(|it| matches!(it.event, Event::Done { .. }));
            let dones = dones.map(|it| ((at.clone(), it.task), it.event.clone()));
            self.last_done.lock().unwrap().extend(dones);
        }
        self.inner.record(at, records).await
    }

    async fn get(&self, at: &Lookup) -> Result<Option<Checkpoint>, CheckpointError> {
        Ok(self.inner.get(at).await?.map(|it| self.spoil_read(it)))
    }

    async fn list(&self, query: &History) -> Result<Vec<Checkpoint>, CheckpointError> {
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
        Ok(found.into_iter().map(|it| self.spoil_read(it)).collect())
    }

    async fn threads(&self) -> Result<Vec<String>, CheckpointError> {
        assert!(self.fault != Fault::PanicsOnThreads, "no threads today");
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
        if self.fault == Fault::CopiesOver && from != to {
            self.inner.delete_thread(to).await?;
        }
        self.inner.copy_thread(from, to).await
    }

    async fn prune(&self, threads: &[String], keep: Keep) -> Result<Pruned, CheckpointError> {
        if self.fault == Fault::PrunesAll && keep == Keep::Newest(0) {
            for thread in threads {
                self.inner.delete_thread(thread).await?;
            }
        }
        self.inner.prune(threads, keep).await
    }
}
