//! Checks of the expiry of items.

use std::{sync::Arc, time::Duration};

use graph_core::store::{
    Filter, Get, ListNamespaces, Op, Put, Search, StoreError, TtlConfig, backend::Settings,
};
use serde_json::json;

use super::support::*;

checks! {
    "ttl: an item expires after its lifetime" => plain, expires(),
    "ttl: expired items are neither found nor listed" => plain, not_found(),
    "ttl: an item put after its expiry has a new creation time" => plain, put_after_expiry(),
    "ttl: the default lifetime applies to puts without their own" =>
        |settings, _| {
            settings.with_ttl(TtlConfig { default_ttl: Some(secs(10)), ..TtlConfig::default() })
        },
        default_ttl(),
    "ttl: reads refresh the lifetime" => plain, refreshes(None, true),
    "ttl: a read can disable the refresh" => plain, refreshes(Some(false), false),
    "ttl: a store can disable the refresh" => no_refresh, refreshes(None, false),
    "ttl: a read can enable the refresh" => no_refresh, refreshes(Some(true), true),
    "ttl: reads in a batch refresh the lifetime" => plain, refreshes_in_batch(),
    "ttl: a search refreshes only the items it returns" => plain, only_the_page(),
    "ttl: a read does not add an expiry to an item without one" => plain, without_expiry(),
    "sweep: expired items are removed" => visible_until_swept, sweep(),
    "sweep: expired items stay visible and keep their creation time until swept" =>
        visible_until_swept,
        visible_before_sweep(),
    "sweep: a thousand items are removed at once" => plain, sweep_many(),
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn put(key: &str) -> Result<Put, StoreError> {
    Put::new(&["a"], key, json!({"key": key}))
}

fn no_refresh(settings: Settings, _: Arc<WordEmbedder>) -> Settings {
    settings.with_ttl(TtlConfig { refresh_on_read: false, ..TtlConfig::default() })
}

async fn expires(fixture: Fixture) -> CheckResult {
    fixture.store.put_item(put("short")?.ttl(secs(10))).await?;
    fixture.store.put_item(put("long")?.ttl(Duration::MAX)).await?;
    fixture.store.put_item(put("plain")?).await?;
    fixture.clock.advance(9);
    assert!(fixture.has("short").await?);
    fixture.clock.advance(1);
    assert!(!fixture.has("short").await?);
    assert!(fixture.has("long").await?);
    assert!(fixture.has("plain").await?);
    Ok(())
}

async fn not_found(fixture: Fixture) -> CheckResult {
    fixture.store.put_item(put("k")?.ttl(secs(10))).await?;
    fixture.clock.advance(10);
    assert_eq!(fixture.found_keys(Search::everything()).await?, "");
    assert_eq!(fixture.listed_namespaces(ListNamespaces::new()).await?, "");
    Ok(())
}

async fn put_after_expiry(fixture: Fixture) -> CheckResult {
    fixture.store.put_item(put("k")?.ttl(secs(10))).await?;
    fixture.clock.advance(10);
    fixture.store.put_item(put("k")?).await?;
    let item = fixture.get_k().await?;
    assert_eq!((item.created_at, item.updated_at), (fixture.clock.now(), fixture.clock.now()));
    fixture.clock.advance(100);
    assert!(fixture.has("k").await?, "the second put has no expiry");
    Ok(())
}

async fn default_ttl(fixture: Fixture) -> CheckResult {
    fixture.store.put_item(put("default")?).await?;
    fixture.store.put_item(put("own")?.ttl(secs(20))).await?;
    fixture.store.put_item(put("never")?.without_ttl()).await?;
    fixture.clock.advance(10);
    assert!(!fixture.has("default").await?);
    assert!(fixture.has("own").await?);
    fixture.clock.advance(10);
    assert!(!fixture.has("own").await?);
    assert!(fixture.has("never").await?);
    Ok(())
}

async fn refreshes(fixture: Fixture, requested: Option<bool>, refreshed: bool) -> CheckResult {
    let mut get = Get::new(&["a"], "got")?;
    let mut search = Search::under(&["a"])?.filter(Filter::eq("key", "found"));
    (get.refresh_ttl, search.refresh_ttl) = (requested, requested);
    fixture.store.put_item(put("got")?.ttl(secs(10))).await?;
    fixture.store.put_item(put("found")?.ttl(secs(10))).await?;
    fixture.clock.advance(6);
    assert!(fixture.store.get_item(get).await?.is_some());
    assert_eq!(fixture.found_keys(search).await?, "found");
    fixture.clock.advance(6);
    assert_eq!(fixture.has("got").await?, refreshed);
    assert_eq!(fixture.has("found").await?, refreshed);
    fixture.clock.advance(6);
    assert!(!fixture.has("got").await?);
    Ok(())
}

async fn refreshes_in_batch(fixture: Fixture) -> CheckResult {
    fixture.store.put_item(put("got")?.ttl(secs(10))).await?;
    fixture.store.put_item(put("found")?.ttl(secs(10))).await?;
    fixture.clock.advance(6);
    let search = Search::everything().filter(Filter::eq("key", "found"));
    let ops = vec![Op::Put(put("new")?), Op::Get(Get::new(&["a"], "got")?), Op::Search(search)];
    fixture.store.batch(ops).await?;
    fixture.clock.advance(6);
    assert!(fixture.has("got").await?);
    assert!(fixture.has("found").await?);
    Ok(())
}

async fn only_the_page(fixture: Fixture) -> CheckResult {
    fixture.store.put_item(put("first")?.ttl(secs(10))).await?;
    fixture.store.put_item(put("second")?.ttl(secs(10))).await?;
    fixture.clock.advance(6);
    assert_eq!(fixture.found_keys(Search::everything().limit(1)).await?, "first");
    fixture.clock.advance(6);
    assert!(fixture.has("first").await?);
    assert!(!fixture.has("second").await?);
    Ok(())
}

async fn without_expiry(fixture: Fixture) -> CheckResult {
    fixture.store.put_item(put("k")?).await?;
    fixture.get_k().await?;
    fixture.found_keys(Search::everything()).await?;
    fixture.clock.advance(1_000_000);
    assert_eq!(fixture.store.sweep().await?, 0);
    assert!(fixture.has("k").await?);
    Ok(())
}

async fn sweep(fixture: Fixture) -> CheckResult {
    fixture.store.put_item(put("short")?.ttl(secs(10))).await?;
    fixture.store.put_item(put("long")?.ttl(secs(20))).await?;
    fixture.store.put_item(put("endless")?).await?;
    assert_eq!(fixture.store.sweep().await?, 0);
    fixture.clock.advance(10);
    assert_eq!(fixture.store.sweep().await?, 1);
    assert!(!fixture.has("short").await?);
    assert!(fixture.has("long").await?);
    fixture.clock.advance(10);
    assert_eq!(fixture.store.sweep().await?, 1);
    assert_eq!(fixture.found_keys(Search::everything()).await?, "endless");
    Ok(())
}

async fn visible_before_sweep(fixture: Fixture) -> CheckResult {
    let created_at = fixture.clock.now();
    fixture.store.put_item(put("k")?.ttl(secs(10))).await?;
    fixture.clock.advance(10);
    assert!(fixture.has("k").await?);
    assert_eq!(fixture.found_keys(Search::everything().refresh_ttl(false)).await?, "k");
    assert_eq!(fixture.listed_namespaces(ListNamespaces::new()).await?, "a");
    fixture.store.put_item(put("k")?.ttl(secs(10))).await?;
    assert_eq!(fixture.get_k().await?.created_at, created_at);
    assert_eq!(fixture.store.sweep().await?, 0, "the second put has its own lifetime");
    Ok(())
}

async fn sweep_many(fixture: Fixture) -> CheckResult {
    let put = |n: usize| put(&n.to_string()).map(|it| Op::Put(it.ttl(secs(1 + n as u64 % 2))));
    fixture.store.batch((0..2_200).map(put).collect::<Result<_, _>>()?).await?;
    fixture.clock.advance(1);
    assert_eq!(fixture.store.sweep().await?, 1_100);
    let rest = Search::everything().limit(usize::MAX).refresh_ttl(false);
    assert_eq!(fixture.store.search(rest).await?.len(), 1_100);
    Ok(())
}
