//! Tests of the SQLite store for behaviour that the common test suite for all stores does not cover.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use checkpoint_testkit::store;
use graph_core::store::{
    Address, Get, ListNamespaces, Op, Put, Search, Store, StoreError, backend::Settings,
};
use graph_store::{Sqlite, SqliteSaver, SqliteStore};
use serde_json::json;
use tempfile::TempDir;

fn file() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("memory.db");
    (dir, path)
}

/// A clock whose time the test sets.
#[derive(Clone, Default)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn advance(&self, secs: u64) {
        self.0.fetch_add(secs, Ordering::Relaxed);
    }

    fn on(&self, store: SqliteStore) -> SqliteStore {
        let this = self.clone();
        store.with_settings(Settings::new().with_clock(move || {
            SystemTime::UNIX_EPOCH + Duration::from_secs(this.0.load(Ordering::Relaxed))
        }))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_passes_the_conformance_suite() {
    let dirs = Mutex::new(Vec::new());
    let report = store::run_atomic(|settings| {
        let (dir, path) = file();
        dirs.lock().unwrap().push(dir);
        async move {
            Arc::new(SqliteStore::open(path).unwrap().with_settings(settings)) as Arc<dyn Store>
        }
    });
    report.await.assert();
}

#[tokio::test]
async fn items_survive_reopening_the_file() {
    let (_dir, path) = file();
    let clock = Clock::default();
    let store = clock.on(SqliteStore::open(&path).unwrap());
    store.put(&["a"], "k", json!({"n": 1})).await.unwrap();
    store.put_item(Put::new(&["a"], "short", json!({})).unwrap().ttl(SECOND * 10)).await.unwrap();
    drop(store);

    clock.advance(9);
    let store = clock.on(SqliteStore::open(&path).unwrap());
    let item = store.get(&["a"], "k").await.unwrap().unwrap();
    assert_eq!((item.value, item.created_at), (json!({"n": 1}), SystemTime::UNIX_EPOCH));
    let short = Get::new(&["a"], "short").unwrap().refresh_ttl(false);
    assert!(store.get_item(short.clone()).await.unwrap().is_some());
    clock.advance(1);
    assert_eq!(store.get_item(short).await.unwrap(), None);
    assert_eq!(store.sweep().await.unwrap(), 1);
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_open_databases_on_one_file_see_each_others_writes() {
    let (_dir, path) = file();
    let clock = Clock::default();
    let stores = [0, 1].map(|_| clock.on(SqliteStore::open(&path).unwrap()));
    for n in 0..40 {
        let (writer, reader) = (&stores[n % 2], &stores[(n + 1) % 2]);
        writer.put(&["a"], "k", json!({"n": n})).await.unwrap();
        assert_eq!(reader.get(&["a"], "k").await.unwrap().unwrap().value, json!({"n": n}));
    }
    let lasting = Put::new(&["a"], "lasting", json!({})).unwrap().ttl(10 * SECOND);
    stores[0].put_item(lasting).await.unwrap();
    clock.advance(9);
    stores[1].get(&["a"], "lasting").await.unwrap().unwrap();
    clock.advance(9);
    assert!(
        stores[0].get(&["a"], "lasting").await.unwrap().is_some(),
        "the other handle extended its lifetime"
    );

    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..100 {
        let store = stores[n % 2].clone();
        tasks.spawn(async move { store.put(&["b"], &n.to_string(), json!({})).await });
    }
    for done in tasks.join_all().await {
        done.unwrap();
    }
    let all = Search::under(&["b"]).unwrap().limit(usize::MAX);
    assert_eq!(stores[0].search(all).await.unwrap().len(), 100);
}

#[tokio::test]
async fn a_failed_batch_is_rolled_back() {
    let (_dir, path) = file();
    let store = SqliteStore::open(&path).unwrap();
    store.put(&["a"], "before", json!({})).await.unwrap();
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(
            "CREATE TRIGGER no_wrong BEFORE INSERT ON item WHEN NEW.key = CAST('wrong' AS BLOB)
             BEGIN SELECT RAISE(ABORT, 'wrong'); END",
        )
        .unwrap();
    let put = |key| Op::Put(Put::new(&["a"], key, json!({})).unwrap());
    let delete = Op::Delete(Address::new(&["a"], "before").unwrap());
    let failed = store.batch(vec![put("first"), delete, put("wrong")]).await.unwrap_err();
    let source = std::error::Error::source(&failed).unwrap().to_string();
    assert!(source.contains("memory.db") && source.contains("wrong"), "{source}");
    let hits = store.search(Search::everything()).await.unwrap();
    assert_eq!(hits.iter().map(|it| it.key.as_str()).collect::<Vec<_>>(), ["before"]);
}

#[tokio::test]
async fn a_value_above_the_limit_is_reported_with_its_key() {
    let (_dir, path) = file();
    let database = Sqlite::settings().max_value_bytes(1_000).open(path).unwrap();
    let store = SqliteStore::new(&database);
    let error = store.put(&["a"], "k", json!({"text": "x".repeat(2_000)})).await.unwrap_err();
    assert!(matches!(error, StoreError::Backend(_)));
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.starts_with("the value of `a/k` has 20"), "{source}");
    assert_eq!(store.get(&["a"], "k").await.unwrap(), None);
}

#[tokio::test]
async fn a_damaged_value_is_an_error() {
    let (_dir, path) = file();
    let store = SqliteStore::open(&path).unwrap();
    store.put(&["a"], "k", json!({"n": 1000})).await.unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute("UPDATE item SET value = CAST(value || x'00' AS BLOB)", []).unwrap();
    let error = store.get(&["a"], "k").await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("the value of `a/k` cannot be read"), "{source}");
    assert!(store.search(Search::everything()).await.is_err());
}

#[tokio::test]
async fn threads_and_items_can_share_a_file() {
    let (_dir, path) = file();
    let database = Sqlite::open(&path).unwrap();
    let (saver, store) = (SqliteSaver::new(&database), SqliteStore::new(&database));
    store.put(&["a"], "k", json!({})).await.unwrap();
    let threads = graph_core::checkpoint::Checkpointer::threads(&saver).await.unwrap();
    assert!(threads.is_empty());
    assert_eq!(store.list_namespaces(ListNamespaces::new()).await.unwrap().len(), 1);
}

/// A search under a prefix uses a range of an index, and a search for expired items uses the index on the expiry
/// time.
#[test]
fn statements_use_the_indexes() {
    let (_dir, path) = file();
    drop(Sqlite::open(&path).unwrap());
    let connection = rusqlite::Connection::open(&path).unwrap();
    for (statement, plan) in [
        (
            "SELECT value FROM item WHERE namespace >= x'01' AND namespace < x'02'
             AND (expires_at IS NULL OR expires_at > 5) ORDER BY namespace, key",
            "SEARCH item USING INDEX sqlite_autoindex_item_1 (namespace>? AND namespace<?)",
        ),
        (
            "SELECT id FROM item WHERE expires_at <= 5 LIMIT 500",
            "SEARCH item USING COVERING INDEX item_expiry (expires_at<?)",
        ),
    ] {
        let found: String = connection
            .query_row(&format!("EXPLAIN QUERY PLAN {statement}"), [], |row| row.get(3))
            .unwrap();
        assert_eq!(found, plan);
    }
}

#[cfg(feature = "encryption")]
#[tokio::test]
async fn an_encrypted_file_contains_no_plain_values_or_vectors() {
    use graph_core::store::IndexConfig;
    use graph_store::Keys;

    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    let (dir, path) = file();
    let index = || IndexConfig::new(Arc::new(Constant), 2);
    for (keys, hidden) in [(None, false), (Some(KEY), true)] {
        let path = path.with_extension(if hidden { "encrypted" } else { "plain" });
        let settings = Sqlite::settings();
        let database = match keys {
            Some(keys) => settings.encrypt(Keys::parse(keys).unwrap()).open(&path).unwrap(),
            None => settings.open(&path).unwrap(),
        };
        let store = SqliteStore::new(&database).with_index(index());
        store.put(&["a"], "k", json!({"text": "the launch code"})).await.unwrap();
        let hits = store.search(Search::everything().query("any")).await.unwrap();
        assert_eq!(hits[0].value["text"], "the launch code");
        assert!(hits[0].score.unwrap() > 0.999);
        drop((store, database));

        let vector = [0.6_f32, 0.8].map(f32::to_le_bytes).concat();
        let mut seen = (false, false);
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let entry = entry.unwrap();
            if entry
                .file_name()
                .to_string_lossy()
                .starts_with(path.file_name().unwrap().to_str().unwrap())
            {
                let bytes = std::fs::read(entry.path()).unwrap();
                seen.0 |= bytes.windows(11).any(|it| it == b"launch code");
                seen.1 |= bytes.windows(8).any(|it| it == vector);
            }
        }
        assert_eq!(seen, (!hidden, !hidden));
    }
    let without_key =
        SqliteStore::open(path.with_extension("encrypted")).unwrap().with_index(index());
    assert!(without_key.get(&["a"], "k").await.is_err());
    assert!(without_key.search(Search::everything().query("any")).await.is_err());
}

/// Embeds every text as the same vector.
#[cfg(feature = "encryption")]
struct Constant;

#[cfg(feature = "encryption")]
#[async_trait::async_trait]
impl graph_core::store::Embed for Constant {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, StoreError> {
        Ok(vec![vec![3.0, 4.0]; texts.len()])
    }
}
