//! Items that expire.

use std::time::Duration;

use serde_json::json;

use super::super::*;
use super::Clock;

fn put(key: &str) -> Put {
    Put::new(&["a"], key, json!({})).unwrap()
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

async fn is_there(store: &InMemoryStore, key: &str) -> bool {
    let get = Get::new(&["a"], key).unwrap().refresh_ttl(false);
    store.get_item(get).await.unwrap().is_some()
}

#[tokio::test]
async fn an_item_expires_after_its_time() {
    let clock = Clock::new();
    let store = clock.store();
    store.put_item(put("short").ttl(secs(10))).await.unwrap();
    store.put_item(put("long").ttl(Duration::MAX)).await.unwrap();
    store.put_item(put("plain")).await.unwrap();

    clock.advance(9);
    assert!(is_there(&store, "short").await);
    clock.advance(1);
    assert!(!is_there(&store, "short").await);
    assert!(is_there(&store, "long").await);
    assert!(is_there(&store, "plain").await);
}

#[tokio::test]
async fn expired_items_are_neither_found_nor_listed() {
    let clock = Clock::new();
    let store = clock.store();
    store.put_item(put("k").ttl(secs(10))).await.unwrap();
    clock.advance(10);
    assert_eq!(store.search(Search::everything()).await.unwrap(), []);
    assert_eq!(store.list_namespaces(ListNamespaces::new()).await.unwrap(), []);
}

#[tokio::test]
async fn an_item_put_after_its_end_is_a_new_one() {
    let clock = Clock::new();
    let store = clock.store();
    store.put_item(put("k").ttl(secs(10))).await.unwrap();
    clock.advance(10);
    store.put_item(put("k")).await.unwrap();
    let item = store.get(&["a"], "k").await.unwrap().unwrap();
    assert_eq!(item.created_at, clock.now());
    clock.advance(100);
    assert!(is_there(&store, "k").await, "the second put has no end");
}

#[tokio::test]
async fn the_default_is_for_puts_that_do_not_say() {
    let clock = Clock::new();
    let ttl = TtlConfig { default_ttl: Some(secs(10)), ..TtlConfig::default() };
    let store = clock.store().with_ttl(ttl);
    store.put_item(put("default")).await.unwrap();
    store.put_item(put("own").ttl(secs(20))).await.unwrap();
    store.put_item(put("never").without_ttl()).await.unwrap();

    clock.advance(10);
    assert!(!is_there(&store, "default").await);
    assert!(is_there(&store, "own").await);
    clock.advance(10);
    assert!(!is_there(&store, "own").await);
    assert!(is_there(&store, "never").await);
}

#[tokio::test]
async fn reads_prolong_a_life_unless_told_not_to() {
    for (config, request, prolonged) in [
        (true, None, true),
        (false, None, false),
        (true, Some(false), false),
        (false, Some(true), true),
    ] {
        let clock = Clock::new();
        let ttl = TtlConfig { refresh_on_read: config, ..TtlConfig::default() };
        let store = clock.store().with_ttl(ttl);
        let mut get = Get::new(&["a"], "got").unwrap();
        let mut search = Search::under(&["a"]).unwrap().filter(Filter::eq("find", true));
        (get.refresh_ttl, search.refresh_ttl) = (request, request);

        store.put_item(put("got").ttl(secs(10))).await.unwrap();
        let found = Put::new(&["a"], "found", json!({"find": true})).unwrap();
        store.put_item(found.ttl(secs(10))).await.unwrap();
        clock.advance(6);
        store.get_item(get).await.unwrap().unwrap();
        assert_eq!(store.search(search).await.unwrap().len(), 1);
        clock.advance(6);
        assert_eq!(is_there(&store, "got").await, prolonged, "{config} {request:?}");
        assert_eq!(is_there(&store, "found").await, prolonged, "{config} {request:?}");
        clock.advance(6);
        assert!(!is_there(&store, "got").await);
    }
}

#[tokio::test]
async fn a_search_prolongs_only_what_it_gives() {
    let clock = Clock::new();
    let store = clock.store();
    store.put_item(put("first").ttl(secs(10))).await.unwrap();
    store.put_item(put("second").ttl(secs(10))).await.unwrap();
    clock.advance(6);
    store.search(Search::everything().limit(1)).await.unwrap();
    clock.advance(6);
    assert!(is_there(&store, "first").await);
    assert!(!is_there(&store, "second").await);
}

#[tokio::test]
async fn a_sweep_removes_what_has_expired() {
    let clock = Clock::new();
    let ttl = TtlConfig { omit_expired: false, ..TtlConfig::default() };
    let store = clock.store().with_ttl(ttl);
    store.put_item(put("short").ttl(secs(10))).await.unwrap();
    store.put_item(put("long").ttl(secs(20))).await.unwrap();
    assert_eq!(store.sweep().await.unwrap(), 0);
    clock.advance(10);
    assert!(is_there(&store, "short").await, "shown until the sweep");
    assert_eq!(store.sweep().await.unwrap(), 1);
    assert!(!is_there(&store, "short").await);
    assert!(is_there(&store, "long").await);
    clock.advance(10);
    assert_eq!(store.sweep().await.unwrap(), 1);
    assert_eq!(store.list_namespaces(ListNamespaces::new()).await.unwrap(), []);
}
