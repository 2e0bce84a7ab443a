//! Items that expire.

use std::time::Duration;

use serde_json::json;

use super::support::*;
use crate::store::{Filter, Get, ListNamespaces, Op, Put, Search, StoreError, TtlConfig};

checks! {
    "ttl: an item expires after its time" => plain, expires(),
    "ttl: what has expired is neither found nor listed" => plain, not_found(),
    "ttl: an item put after its end is a new one" => plain, put_after_end(),
    "ttl: the default is for puts that do not say" =>
        |settings, _| {
            settings.with_ttl(TtlConfig { default_ttl: Some(secs(10)), ..TtlConfig::default() })
        },
        default_ttl(),
    "ttl: reads prolong a life" => plain, prolongs(None, true),
    "ttl: a read may be told not to prolong" => plain, prolongs(Some(false), false),
    "ttl: a store may be told not to prolong" => unrefreshed, prolongs(None, false),
    "ttl: a read may prolong though the store does not" => unrefreshed, prolongs(Some(true), true),
    "ttl: a life that was prolonged in a batch" => plain, prolongs_in_batch(),
    "ttl: a search prolongs only what it gives" => plain, only_the_page(),
    "ttl: a read gives no end to what has none" => plain, endless(),
    "sweep: it removes what has expired" => shown_until_swept, sweep(),
    "sweep: until then it is shown and keeps its creation" => shown_until_swept, shown(),
    "sweep: a thousand at once" => plain, sweep_many(),
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn put(key: &str) -> Result<Put, StoreError> {
    Put::new(&["a"], key, json!({"key": key}))
}

fn unrefreshed(
    settings: crate::store::backend::Settings,
    _: std::sync::Arc<Words>,
) -> crate::store::backend::Settings {
    settings.with_ttl(TtlConfig { refresh_on_read: false, ..TtlConfig::default() })
}

async fn expires(bench: Bench) -> Outcome {
    bench.store.put_item(put("short")?.ttl(secs(10))).await?;
    bench.store.put_item(put("long")?.ttl(Duration::MAX)).await?;
    bench.store.put_item(put("plain")?).await?;
    bench.clock.advance(9);
    assert!(bench.has("short").await?);
    bench.clock.advance(1);
    assert!(!bench.has("short").await?);
    assert!(bench.has("long").await?);
    assert!(bench.has("plain").await?);
    Ok(())
}

async fn not_found(bench: Bench) -> Outcome {
    bench.store.put_item(put("k")?.ttl(secs(10))).await?;
    bench.clock.advance(10);
    assert_eq!(bench.found(Search::everything()).await?, "");
    assert_eq!(bench.listed(ListNamespaces::new()).await?, "");
    Ok(())
}

async fn put_after_end(bench: Bench) -> Outcome {
    bench.store.put_item(put("k")?.ttl(secs(10))).await?;
    bench.clock.advance(10);
    bench.store.put_item(put("k")?).await?;
    let item = bench.k().await?;
    assert_eq!((item.created_at, item.updated_at), (bench.clock.now(), bench.clock.now()));
    bench.clock.advance(100);
    assert!(bench.has("k").await?, "the second put has no end");
    Ok(())
}

async fn default_ttl(bench: Bench) -> Outcome {
    bench.store.put_item(put("default")?).await?;
    bench.store.put_item(put("own")?.ttl(secs(20))).await?;
    bench.store.put_item(put("never")?.without_ttl()).await?;
    bench.clock.advance(10);
    assert!(!bench.has("default").await?);
    assert!(bench.has("own").await?);
    bench.clock.advance(10);
    assert!(!bench.has("own").await?);
    assert!(bench.has("never").await?);
    Ok(())
}

async fn prolongs(bench: Bench, asked: Option<bool>, prolonged: bool) -> Outcome {
    let mut get = Get::new(&["a"], "got")?;
    let mut search = Search::under(&["a"])?.filter(Filter::eq("key", "found"));
    (get.refresh_ttl, search.refresh_ttl) = (asked, asked);
    bench.store.put_item(put("got")?.ttl(secs(10))).await?;
    bench.store.put_item(put("found")?.ttl(secs(10))).await?;
    bench.clock.advance(6);
    assert!(bench.store.get_item(get).await?.is_some());
    assert_eq!(bench.found(search).await?, "found");
    bench.clock.advance(6);
    assert_eq!(bench.has("got").await?, prolonged);
    assert_eq!(bench.has("found").await?, prolonged);
    bench.clock.advance(6);
    assert!(!bench.has("got").await?);
    Ok(())
}

async fn prolongs_in_batch(bench: Bench) -> Outcome {
    bench.store.put_item(put("got")?.ttl(secs(10))).await?;
    bench.store.put_item(put("found")?.ttl(secs(10))).await?;
    bench.clock.advance(6);
    let search = Search::everything().filter(Filter::eq("key", "found"));
    let ops = vec![Op::Put(put("new")?), Op::Get(Get::new(&["a"], "got")?), Op::Search(search)];
    bench.store.batch(ops).await?;
    bench.clock.advance(6);
    assert!(bench.has("got").await?);
    assert!(bench.has("found").await?);
    Ok(())
}

async fn only_the_page(bench: Bench) -> Outcome {
    bench.store.put_item(put("first")?.ttl(secs(10))).await?;
    bench.store.put_item(put("second")?.ttl(secs(10))).await?;
    bench.clock.advance(6);
    assert_eq!(bench.found(Search::everything().limit(1)).await?, "first");
    bench.clock.advance(6);
    assert!(bench.has("first").await?);
    assert!(!bench.has("second").await?);
    Ok(())
}

async fn endless(bench: Bench) -> Outcome {
    bench.store.put_item(put("k")?).await?;
    bench.k().await?;
    bench.found(Search::everything()).await?;
    bench.clock.advance(1_000_000);
    assert_eq!(bench.store.sweep().await?, 0);
    assert!(bench.has("k").await?);
    Ok(())
}

async fn sweep(bench: Bench) -> Outcome {
    bench.store.put_item(put("short")?.ttl(secs(10))).await?;
    bench.store.put_item(put("long")?.ttl(secs(20))).await?;
    bench.store.put_item(put("endless")?).await?;
    assert_eq!(bench.store.sweep().await?, 0);
    bench.clock.advance(10);
    assert_eq!(bench.store.sweep().await?, 1);
    assert!(!bench.has("short").await?);
    assert!(bench.has("long").await?);
    bench.clock.advance(10);
    assert_eq!(bench.store.sweep().await?, 1);
    assert_eq!(bench.found(Search::everything()).await?, "endless");
    Ok(())
}

async fn shown(bench: Bench) -> Outcome {
    let created_at = bench.clock.now();
    bench.store.put_item(put("k")?.ttl(secs(10))).await?;
    bench.clock.advance(10);
    assert!(bench.has("k").await?);
    assert_eq!(bench.found(Search::everything().refresh_ttl(false)).await?, "k");
    assert_eq!(bench.listed(ListNamespaces::new()).await?, "a");
    bench.store.put_item(put("k")?.ttl(secs(10))).await?;
    assert_eq!(bench.k().await?.created_at, created_at);
    assert_eq!(bench.store.sweep().await?, 0, "the second put has a life of its own");
    Ok(())
}

async fn sweep_many(bench: Bench) -> Outcome {
    let put = |n: usize| put(&n.to_string()).map(|it| Op::Put(it.ttl(secs(1 + n as u64 % 2))));
    bench.store.batch((0..2_200).map(put).collect::<Result<_, _>>()?).await?;
    bench.clock.advance(1);
    assert_eq!(bench.store.sweep().await?, 1_100);
    let rest = Search::everything().limit(usize::MAX).refresh_ttl(false);
    assert_eq!(bench.store.search(rest).await?.len(), 1_100);
    Ok(())
}
