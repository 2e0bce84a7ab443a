//! Tests of the suite itself. Most of them run the suite on a store with one fault, which the suite must detect.

use std::{sync::Arc, time::SystemTime};

use async_trait::async_trait;
use graph_core::store::{
    Address, Get, InMemoryStore, Item, ListNamespaces, Namespace, Op, OpOutput, Put, Search, Store,
    StoreError, backend::Settings,
};

use super::{run, run_atomic};

#[tokio::test]
async fn in_memory_store_conforms() {
    let report = run_atomic(|settings| async {
        Arc::new(InMemoryStore::new().with_settings(settings)) as Arc<dyn Store>
    });
    let report = report.await;
    report.assert();
    assert!(report.passed.len() > 50, "{report}");
}

#[tokio::test]
async fn store_without_atomic_batches_conforms() {
    run(|settings| faulty(settings, None)).await.assert();
}

#[tokio::test]
async fn every_fault_is_detected() {
    for (fault, detected_by) in FAULTS {
        let check = super::checks().find(|it| it.name() == *detected_by).unwrap();
        let result = check.run(|settings| faulty(settings, Some(*fault))).await;
        assert!(result.is_err(), "`{detected_by}` does not detect {fault:?}");
    }
}

#[tokio::test]
async fn partial_batches_are_detected() {
    let report = run_atomic(|settings| faulty(settings, None)).await;
    let failed: Vec<_> = report.failed.iter().map(|it| it.check).collect();
    assert!(
        failed.contains(&"atomic: an invalid last operation leaves nothing written"),
        "{report}"
    );
    assert!(failed.iter().all(|it| it.starts_with("atomic: ")), "{report}");
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
    RoundsTimes,
    RejectsNulInKeys,
    IgnoresOffset,
    IgnoresFilter,
    MatchesPartialLabels,
    NeverRefreshes,
    AlwaysRefreshes,
    SweepsNothing,
    ListsBackwards,
    DropsScores,
    LosesPuts,
    KeepsDeleted,
}

const FAULTS: &[(Fault, &str)] = &[
    (Fault::RoundsTimes, "put: an item reads back unchanged"),
    (Fault::RejectsNulInKeys, "names: unusual keys stay distinct and sorted"),
    (Fault::IgnoresOffset, "search: filters apply before limit and offset"),
    (Fault::IgnoresFilter, "search: filters match on nested values"),
    (Fault::MatchesPartialLabels, "names: a prefix matches whole labels"),
    (Fault::NeverRefreshes, "ttl: reads refresh the lifetime"),
    (Fault::AlwaysRefreshes, "ttl: a read can disable the refresh"),
    (Fault::SweepsNothing, "sweep: expired items are removed"),
    (Fault::ListsBackwards, "list: namespaces match by prefix and suffix"),
    (Fault::DropsScores, "query: the most similar item comes first"),
    (Fault::LosesPuts, "concurrency: concurrent puts of different items are all kept"),
    (
        Fault::KeepsDeleted,
        "delete: only the addressed item is removed, and deleting twice succeeds",
    ),
];

async fn faulty(settings: Settings, fault: Option<Fault>) -> Arc<dyn Store> {
    Arc::new(Faulty { inner: InMemoryStore::new().with_settings(settings), fault })
}

/// A store that runs the operations of a batch one by one, optionally with a fault.
#[derive(Debug)]
struct Faulty {
    inner: InMemoryStore,
    fault: Option<Fault>,
}

impl Faulty {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn refresh(&self, requested: Option<bool>) -> Option<bool> {
        match self.fault {
            Some(Fault::NeverRefreshes) => Some(false),
            Some(Fault::AlwaysRefreshes) => Some(true),
            _ => requested,
        }
    }

    fn apply_fault(&self, mut item: Item) -> Item {
        if self.has(Fault::RoundsTimes) {
            let secs = item.created_at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
            item.created_at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(secs);
        }
        if self.has(Fault::DropsScores) {
            item.score = None;
        }
        item
    }
}

#[async_trait]
impl Store for Faulty {
    async fn batch(&self, ops: Vec<Op>) -> Result<Vec<OpOutput>, StoreError> {
        let mut outcomes = Vec::new();
        for op in ops {
            outcomes.push(match op {
                Op::Put(put) => self.put_item(put).await.map(|()| OpOutput::Done)?,
                Op::Get(get) => OpOutput::Item(self.get_item(get).await?),
                Op::Delete(at) => self.delete_item(at).await.map(|()| OpOutput::Done)?,
                Op::Search(search) => OpOutput::Items(self.search(search).await?),
                Op::List(list) => OpOutput::Namespaces(self.list_namespaces(list).await?),
                other => {
                    return Err(StoreError::backend(format!("unexpected operation {other:?}")));
                }
            });
        }
        Ok(outcomes)
    }

    async fn put_item(&self, put: Put) -> Result<(), StoreError> {
        if self.has(Fault::RejectsNulInKeys) && put.at.key().contains('\0') {
            return Err(StoreError::backend("the key contains NUL"));
        }
        if self.has(Fault::LosesPuts) && put.at.key() == "77" {
            return Ok(());
        }
        self.inner.put_item(put).await
    }

    async fn get_item(&self, mut get: Get) -> Result<Option<Item>, StoreError> {
        get.refresh_ttl = self.refresh(get.refresh_ttl);
        Ok(self.inner.get_item(get).await?.map(|it| self.apply_fault(it)))
    }

    async fn delete_item(&self, at: Address) -> Result<(), StoreError> {
        if self.has(Fault::KeepsDeleted) {
            return Ok(());
        }
        self.inner.delete_item(at).await
    }

    async fn search(&self, mut search: Search) -> Result<Vec<Item>, StoreError> {
        search.refresh_ttl = self.refresh(search.refresh_ttl);
        if self.has(Fault::IgnoresOffset) {
            search = search.offset(0);
        }
        if self.has(Fault::IgnoresFilter) {
            search.filter = Default::default();
        }
        if self.has(Fault::MatchesPartialLabels) && search.prefix.len() == 1 {
            let (prefix, page) = (std::mem::take(&mut search.prefix), search.page()?);
            let all = self.inner.search(search.limit(usize::MAX).offset(0)).await?;
            let hits = all.into_iter().filter(|it| it.namespace[0].starts_with(&prefix[0]));
            return Ok(hits.skip(page.start).take(page.len()).collect());
        }
        let hits = self.inner.search(search).await?;
        Ok(hits.into_iter().map(|it| self.apply_fault(it)).collect())
    }

    async fn list_namespaces(&self, list: ListNamespaces) -> Result<Vec<Namespace>, StoreError> {
        let mut namespaces = self.inner.list_namespaces(list).await?;
        if self.has(Fault::ListsBackwards) {
            namespaces.reverse();
        }
        Ok(namespaces)
    }

    async fn sweep(&self) -> Result<usize, StoreError> {
        if self.has(Fault::SweepsNothing) { Ok(0) } else { self.inner.sweep().await }
    }
}
