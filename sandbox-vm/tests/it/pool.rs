//! The pool of sandboxes that are ready.

use std::{collections::BTreeSet, time::Duration};

use sandbox_vm::{Pool, Spec, backend::Jail};

use crate::{HOSTILE, sandboxes};

/// Waits until something holds.
pub(crate) async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn each_is_used_once_and_replaced() {
    let (sandboxes, _folder) = sandboxes(Jail::program(HOSTILE)).await;
    let pool = Pool::of(sandboxes.clone(), Spec::new("pooled")).size(3).open();
    until(|| pool.metrics().ready == 3).await;
    let mut names = BTreeSet::new();
    for _ in 0..4 {
        until(|| pool.metrics().ready > 0).await;
        let sandbox = pool.acquire().await.unwrap();
        assert!(sandbox.fs().list("").await.unwrap().is_empty());
        sandbox.fs().write("secret", "of this user").await.unwrap();
        names.insert(sandbox.name().to_owned());
    }
    assert_eq!(names.len(), 4);
    until(|| pool.metrics().ready == 3 && sandboxes.list().len() == 3).await;
    let metrics = pool.metrics();
    assert_eq!((metrics.warm, metrics.cold), (4, 0));
    assert!(metrics.p50 <= metrics.p95 && metrics.p95 < Duration::from_secs(1), "{metrics:?}");
}

#[tokio::test]
async fn memory_bounds_how_many_there_are() {
    let (sandboxes, _folder) = sandboxes(Jail::program(HOSTILE)).await;
    let spec = Spec::new("pooled").memory(64 << 20);
    let pool = Pool::of(sandboxes.clone(), spec).size(5).memory(128 << 20).open();
    until(|| pool.metrics().ready == 2).await;
    let (first, second) = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
    let third = tokio::time::timeout(Duration::from_millis(300), pool.acquire()).await;
    assert!(third.is_err(), "there is room for two only");
    drop(first);
    let third = pool.acquire().await.unwrap();
    assert_ne!(third.name(), second.name());
}

#[tokio::test]
async fn while_nobody_asks_none_is_kept() {
    let (sandboxes, _folder) = sandboxes(Jail::program(HOSTILE)).await;
    let pool = Pool::of(sandboxes.clone(), Spec::new("pooled"))
        .size(2)
        .idle(Duration::from_secs(2))
        .open();
    until(|| pool.metrics().ready == 2).await;
    until(|| pool.metrics().ready == 0 && sandboxes.list().is_empty()).await;
    // The first who asks waits for one to be made; the pool fills again.
    drop(pool.acquire().await.unwrap());
    assert_eq!(pool.metrics().cold, 1);
    until(|| pool.metrics().ready == 2).await;
}
