//! Whether the kit has teeth: each of these stores has one fault, and the kit must name it.

use std::{sync::Arc, time::SystemTime};

use async_trait::async_trait;

use super::{run, run_atomic};
use crate::store::{
    Address, Get, InMemoryStore, Item, ListNamespaces, Namespace, Op, Outcome, Put, Search, Store,
    StoreError, backend::Settings,
};

#[tokio::test]
async fn the_store_in_memory_conforms() {
    let report = run_atomic(|settings| async {
        Arc::new(InMemoryStore::new().with_settings(settings)) as Arc<dyn Store>
    });
    let report = report.await;
    report.assert();
    assert!(report.passed.len() > 50, "{report}");
}

#[tokio::test]
async fn a_store_that_does_a_batch_one_by_one_conforms() {
    run(|settings| faulty(settings, None)).await.assert();
}

#[tokio::test]
async fn the_kit_notices_every_fault() {
    for (fault, noticed_by) in FAULTS {
        let check = super::checks().find(|it| it.name() == *noticed_by).unwrap();
        let noticed = check.run(|settings| faulty(settings, Some(*fault))).await;
        assert!(noticed.is_err(), "{fault:?} is not noticed by `{noticed_by}`");
    }
}

#[tokio::test]
async fn a_batch_that_is_half_done_is_noticed() {
    let report = run_atomic(|settings| faulty(settings, None)).await;
    let failed: Vec<_> = report.failed.iter().map(|it| it.check).collect();
    assert!(
        failed.contains(&"atomic: what is wrong at the end leaves nothing written"),
        "{report}"
    );
    assert!(failed.iter().all(|it| it.starts_with("atomic: ")), "{report}");
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
    RoundsTimes,
    FailsOnOddKeys,
    IgnoresOffset,
    IgnoresFilter,
    MatchesHalfLabels,
    NeverRefreshes,
    AlwaysRefreshes,
    SweepsNothing,
    ListsBackwards,
    ForgetsScores,
    LosesPuts,
    KeepsDeleted,
}

const FAULTS: &[(Fault, &str)] = &[
    (Fault::RoundsTimes, "put: an item is read as it was put"),
    (Fault::FailsOnOddKeys, "names: odd keys are kept apart"),
    (Fault::IgnoresOffset, "search: filters first, then pages"),
    (Fault::IgnoresFilter, "search: filters look into values"),
    (Fault::MatchesHalfLabels, "names: a prefix matches whole labels"),
    (Fault::NeverRefreshes, "ttl: reads prolong a life"),
    (Fault::AlwaysRefreshes, "ttl: a read may be told not to prolong"),
    (Fault::SweepsNothing, "sweep: it removes what has expired"),
    (Fault::ListsBackwards, "list: namespaces match by both ends"),
    (Fault::ForgetsScores, "query: the most similar comes first"),
    (Fault::LosesPuts, "at once: puts of many items are all there"),
    (Fault::KeepsDeleted, "delete: only the item itself goes, and twice is no error"),
];

async fn faulty(settings: Settings, fault: Option<Fault>) -> Arc<dyn Store> {
    Arc::new(Faulty { inner: InMemoryStore::new().with_settings(settings), fault })
}

/// A store that does the operations of a batch one by one, with a fault or without.
#[derive(Debug)]
struct Faulty {
    inner: InMemoryStore,
    fault: Option<Fault>,
}

impl Faulty {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn refresh(&self, asked: Option<bool>) -> Option<bool> {
        match self.fault {
            Some(Fault::NeverRefreshes) => Some(false),
            Some(Fault::AlwaysRefreshes) => Some(true),
            _ => asked,
        }
    }

    fn spoil(&self, mut item: Item) -> Item {
        if self.has(Fault::RoundsTimes) {
            let secs = item.created_at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
            item.created_at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(secs);
        }
        if self.has(Fault::ForgetsScores) {
            item.score = None;
        }
        item
    }
}

#[async_trait]
impl Store for Faulty {
    async fn batch(&self, ops: Vec<Op>) -> Result<Vec<Outcome>, StoreError> {
        let mut outcomes = Vec::new();
        for op in ops {
            outcomes.push(match op {
                Op::Put(put) => self.put_item(put).await.map(|()| Outcome::Done)?,
                Op::Get(get) => Outcome::Item(self.get_item(get).await?),
                Op::Delete(at) => self.delete_item(at).await.map(|()| Outcome::Done)?,
                Op::Search(search) => Outcome::Items(self.search(search).await?),
                Op::List(list) => Outcome::Namespaces(self.list_namespaces(list).await?),
            });
        }
        Ok(outcomes)
    }

    async fn put_item(&self, put: Put) -> Result<(), StoreError> {
        if self.has(Fault::FailsOnOddKeys) && put.at.key().contains('\0') {
            return Err(StoreError::backend("a key with a zero"));
        }
        if self.has(Fault::LosesPuts) && put.at.key() == "77" {
            return Ok(());
        }
        self.inner.put_item(put).await
    }

    async fn get_item(&self, mut get: Get) -> Result<Option<Item>, StoreError> {
        get.refresh_ttl = self.refresh(get.refresh_ttl);
        Ok(self.inner.get_item(get).await?.map(|it| self.spoil(it)))
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
        if self.has(Fault::MatchesHalfLabels) && search.prefix.len() == 1 {
            let (prefix, page) = (std::mem::take(&mut search.prefix), search.page()?);
            let all = self.inner.search(search.limit(usize::MAX).offset(0)).await?;
            let hits = all.into_iter().filter(|it| it.namespace[0].starts_with(&prefix[0]));
            return Ok(hits.skip(page.start).take(page.len()).collect());
        }
        let hits = self.inner.search(search).await?;
        Ok(hits.into_iter().map(|it| self.spoil(it)).collect())
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
