//! Tests of the SQLite node cache.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use graph_core::{
    FieldWrite,
    cache::{Cache, CacheKey, CachedResult},
    checkpoint::{GotoRecord, TaskId},
    store::Store,
};
use graph_store::{Sizes, Sqlite, SqliteCache, SqliteSaver, SqliteStore};
use serde_json::{Value, json};
use tempfile::TempDir;

const SECOND: Duration = Duration::from_secs(1);

fn file() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cache.db");
    (dir, path)
}

fn key(node: &str, input: u32) -> CacheKey {
    CacheKey { node: node.to_owned(), input: TaskId::from_parts(&[&input.to_le_bytes()]) }
}

fn result(value: Value) -> CachedResult {
    let write = |overwrite| FieldWrite { field: "x".to_owned(), value: value.clone(), overwrite };
    let goto = |payload| GotoRecord { to: "next".to_owned(), payload };
    let writes = vec![write(false), write(true)];
    CachedResult { writes, gotos: vec![goto(None), goto(Some(Value::Null)), goto(Some(value))] }
}

#[tokio::test]
async fn results_are_found_by_node_and_input_after_reopening_the_file() {
    let (_dir, path) = file();
    let value = json!({"\0": [0.1, u64::MAX, null, "é\0"]});
    let cache = SqliteCache::open(&path).unwrap();
    cache.put(key("a", 1), result(json!(0)), None).await;
    cache.put(key("a", 1), result(value.clone()), None).await;
    cache.put(key("a\0b", 1), result(json!(1)), None).await;
    drop(cache);
    let cache = SqliteCache::open(&path).unwrap();
    assert_eq!(cache.get(&key("a", 1)).await, Some(result(value)));
    assert_eq!(cache.get(&key("a\0b", 1)).await, Some(result(json!(1))));
    assert_eq!(cache.get(&key("a", 2)).await, None);
    assert_eq!(cache.get(&key("b", 1)).await, None);
    assert_eq!(cache.failures().count, 0);
}

#[tokio::test]
async fn sizes_include_items_and_cached_results() {
    let (_dir, path) = file();
    let database = Sqlite::open(&path).unwrap();
    let saver = SqliteSaver::new(&database);
    assert_eq!(saver.sizes().await.unwrap(), Sizes::default());
    let (store, cache) = (SqliteStore::new(&database), SqliteCache::new(&database));
    for name in ["one", "two"] {
        store.put(&["notes"], name, json!({"text": "x".repeat(1_000)})).await.unwrap();
    }
    cache.put(key("a", 1), result(json!("y".repeat(1_000))), None).await;
    let sizes = saver.sizes().await.unwrap();
    assert_eq!((sizes.items, sizes.cached, sizes.threads), (2, 1, 0));
    assert!((2_000..2_400).contains(&sizes.item_bytes), "{sizes:?}");
    // The helper `result` stores the 1,000-byte value three times.
    assert!((3_000..3_400).contains(&sizes.cached_bytes), "{sizes:?}");
    assert_eq!(sizes.bytes(), sizes.item_bytes + sizes.cached_bytes);
    assert_eq!(saver.thread_sizes("t").await.unwrap(), Sizes::default());
}

#[tokio::test]
async fn clear_removes_the_results_of_one_node_or_all() {
    let (_dir, path) = file();
    let cache = SqliteCache::open(&path).unwrap();
    for node in ["a", "b", "c"] {
        cache.put(key(node, 1), result(json!(1)), None).await;
    }
    let cached_nodes = async || {
        let mut nodes = String::new();
        for node in ["a", "b", "c"] {
            nodes += cache.get(&key(node, 1)).await.map_or("", |_| node);
        }
        nodes
    };
    cache.clear(Some("b")).await;
    assert_eq!(cached_nodes().await, "ac");
    cache.clear(None).await;
    assert_eq!(cached_nodes().await, "");
}

#[tokio::test]
async fn results_expire_and_are_removed_by_later_puts() {
    let (_dir, path) = file();
    let now = Arc::new(AtomicU64::new(0));
    let clock = now.clone();
    let clock = move || SystemTime::UNIX_EPOCH + Duration::from_secs(clock.load(Ordering::Relaxed));
    let cache = SqliteCache::open(&path).unwrap().with_clock(clock);
    for input in 0..40 {
        cache.put(key("a", input), result(json!(1)), Some(10 * SECOND)).await;
    }
    cache.put(key("b", 0), result(json!(1)), Some(Duration::MAX)).await;
    cache.put(key("b", 1), result(json!(1)), None).await;
    now.store(9, Ordering::Relaxed);
    assert!(cache.get(&key("a", 0)).await.is_some());
    now.store(10, Ordering::Relaxed);
    assert_eq!(cache.get(&key("a", 0)).await, None);

    let rows = || -> usize {
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.query_row("SELECT count(*) FROM cached", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(rows(), 42);
    for (n, left) in [27, 12, 5, 6].into_iter().enumerate() {
        cache.put(key("c", n as u32), result(json!(1)), Some(SECOND)).await;
        assert_eq!(rows(), left, "a put removes sixteen of the expired ones");
    }
    assert!(cache.get(&key("b", 0)).await.is_some());
    assert!(cache.get(&key("b", 1)).await.is_some());
    assert!(cache.get(&key("c", 3)).await.is_some());
}

#[tokio::test]
async fn a_failing_cache_counts_failures_and_misses() {
    let (_dir, path) = file();
    let database = Sqlite::settings().max_value_bytes(1_000).open(&path).unwrap();
    let cache = SqliteCache::new(&database);
    cache.put(key("a", 1), result(json!("x".repeat(2_000))), None).await;
    let failures = cache.failures();
    assert_eq!(failures.count, 1);
    let last = failures.last.unwrap().to_string();
    assert!(last.starts_with("a result of node `a` has"), "{last}");

    cache.put(key("a", 1), result(json!(1)), None).await;
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute("UPDATE cached SET body = x'01'", []).unwrap();
    assert_eq!(cache.clone().get(&key("a", 1)).await, None);
    assert_eq!(cache.failures().count, 2);
    other.execute_batch("DROP TABLE cached").unwrap();
    assert_eq!(cache.get(&key("a", 1)).await, None);
    cache.clear(None).await;
    assert_eq!(cache.failures().count, 4);
}

#[cfg(feature = "encryption")]
#[tokio::test]
async fn an_encrypted_result_is_a_miss_without_its_key() {
    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    let (_dir, path) = file();
    let keys = graph_store::Keys::parse(KEY).unwrap();
    let open = || SqliteCache::new(&Sqlite::settings().encrypt(keys.clone()).open(&path).unwrap());
    open().put(key("a", 1), result(json!("the launch code")), None).await;
    let bytes = std::fs::read(&path).unwrap();
    assert!(!bytes.windows(11).any(|it| it == b"launch code"));
    assert_eq!(open().get(&key("a", 1)).await, Some(result(json!("the launch code"))));
    let keyless = SqliteCache::open(&path).unwrap();
    assert_eq!(keyless.get(&key("a", 1)).await, None);
    assert_eq!(keyless.failures().count, 1);
}
