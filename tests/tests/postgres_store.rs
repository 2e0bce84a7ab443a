//! Tests of long-term memory and of the node cache on PostgreSQL.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use checkpoint_testkit::store;
use graph_core::{
    FieldWrite,
    cache::{Cache, CacheKey, CachedResult},
    checkpoint::TaskId,
    store::{Address, Get, Op, Put, Search, Store, backend::Settings},
};
use graph_store::{Keys, Postgres, PostgresCache, PostgresSaver, PostgresStore, Sizes};
use graph_tests::postgres::{self, Server};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::JoinSet};

const SECOND: Duration = Duration::from_secs(1);
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

async fn open(server: &Server) -> (String, Postgres) {
    let url = server.fresh_database();
    let database = Postgres::connect(&url).await.expect("the database is empty");
    (url, database)
}

/// A clock whose time the test sets.
#[derive(Clone, Default)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn advance(&self, secs: u64) {
        self.0.fetch_add(secs, Ordering::Relaxed);
    }

    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_passes_the_conformance_suite() {
    let Some(server) = postgres::shared() else { return };
    // Each check uses its own schema, because creating a database takes a second.
    let (url, n) = (server.fresh_database(), AtomicUsize::new(0));
    let report = store::run_atomic(|settings| {
        let schema = format!("check_{}", n.fetch_add(1, Ordering::Relaxed));
        let connect = Postgres::settings().schema(schema).connect(&url);
        async {
            let database = connect.await.unwrap();
            Arc::new(PostgresStore::new(&database).with_settings(settings)) as Arc<dyn Store>
        }
    });
    report.await.assert();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clients_share_the_items() {
    let Some(server) = postgres::shared() else { return };
    let clock = Clock::default();
    let (url, first) = open(server).await;
    let second = Postgres::connect(&url).await.unwrap();
    let stores = [first, second].map(|it| {
        let clock = clock.clone();
        PostgresStore::new(&it).with_settings(Settings::new().with_clock(move || clock.now()))
    });
    stores[0].put(&["a"], "k", json!({"n": 1})).await.unwrap();
    assert_eq!(stores[1].get(&["a"], "k").await.unwrap().unwrap().value, json!({"n": 1}));
    let lasting = Put::new(&["a"], "lasting", json!({})).unwrap().ttl(10 * SECOND);
    stores[0].put_item(lasting).await.unwrap();
    clock.advance(9);
    stores[1].get(&["a"], "lasting").await.unwrap().unwrap();
    clock.advance(9);
    let get = Get::new(&["a"], "lasting").unwrap().refresh_ttl(false);
    assert!(
        stores[0].get_item(get.clone()).await.unwrap().is_some(),
        "the other client's read extended the lifetime"
    );
    clock.advance(1);
    assert_eq!(stores[0].get_item(get).await.unwrap(), None);
    assert_eq!(stores[1].sweep().await.unwrap(), 1);
}

/// Reads that extend lifetimes, overlapping batches, deletes and sweeps do not deadlock when they run concurrently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_operations_do_not_deadlock() {
    let Some(server) = postgres::shared() else { return };
    let (url, database) = open(server).await;
    let store = PostgresStore::new(&database);
    // More operations than the pool has connections. The last of them must not wait too long for a connection.
    let slots = Arc::new(Semaphore::new(40));
    let mut tasks = JoinSet::new();
    for n in 0..200_usize {
        let (store, slots) = (store.clone(), slots.clone());
        tasks.spawn(async move {
            let _slot = slots.acquire().await.unwrap();
            let put = |key: usize| {
                let lifetime = SECOND * u32::from(key.is_multiple_of(2));
                let key = (key % 5).to_string();
                Op::Put(Put::new(&["a"], &key, json!({"n": n})).unwrap().ttl(lifetime))
            };
            let delete =
                |key: usize| Op::Delete(Address::new(&["a"], &(key % 5).to_string()).unwrap());
            let search = Op::Search(Search::everything());
            match n % 4 {
                0 => drop(store.batch(vec![put(n), search, put(n + 3), put(n + 1)]).await?),
                1 => drop(store.batch(vec![search, put(n + 2), delete(n), put(n + 4)]).await?),
                2 => drop(store.search(Search::everything()).await?),
                _ => drop(store.sweep().await?),
            }
            Ok::<_, graph_core::store::StoreError>(())
        });
    }
    for done in tasks.join_all().await {
        done.unwrap();
    }
    let deadlocks = server
        .sql(&url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
    assert_eq!(deadlocks, "0");
}

#[tokio::test]
async fn failed_batch_is_rolled_back() {
    let Some(server) = postgres::shared() else { return };
    let (url, database) = open(server).await;
    let store = PostgresStore::new(&database);
    store.put(&["a"], "before", json!({})).await.unwrap();
    server.sql(&url, "ALTER TABLE graph_store.item ADD CHECK (key <> 'wrong'::bytea)");
    let put = |key| Op::Put(Put::new(&["a"], key, json!({})).unwrap());
    let delete = Op::Delete(Address::new(&["a"], "before").unwrap());
    let failed = store.batch(vec![put("first"), delete, put("wrong")]).await.unwrap_err();
    let source = std::error::Error::source(&failed).unwrap().to_string();
    assert!(source.contains("violates check constraint"), "{source}");
    let hits = store.search(Search::everything()).await.unwrap();
    assert_eq!(hits.iter().map(|it| it.key.as_str()).collect::<Vec<_>>(), ["before"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_reconnects_after_a_server_restart() {
    if postgres::shared().is_none() {
        return;
    }
    let server = Server::start().unwrap();
    let (_, database) = open(&server).await;
    let store = PostgresStore::new(&database);
    store.put(&["a"], "k", json!({})).await.unwrap();
    server.crash_and_restart();
    assert!(store.get(&["a"], "k").await.unwrap().is_some());
    server.crash_and_restart();
    let ops = ["x", "y"].map(|key| Op::Put(Put::new(&["a"], key, json!({})).unwrap()));
    store.batch(ops.to_vec()).await.unwrap();
    assert_eq!(store.search(Search::everything()).await.unwrap().len(), 3);
}

/// If the session is terminated while a batch is waiting inside its transaction, the whole batch is retried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batch_with_a_lost_connection_is_retried() {
    let Some(server) = postgres::shared() else { return };
    let (url, database) = open(server).await;
    let store = PostgresStore::new(&database);
    store.put(&["a"], "k", json!({})).await.unwrap();
    server.sql(&url, "CREATE TABLE released (number int)");
    let address = url.clone();
    let locker = tokio::task::spawn_blocking(move || {
        // Holds the lock until the table `released` has a row.
        server.sql(
            &address,
            "DO $$ BEGIN
                 LOCK TABLE graph_store.item;
                 WHILE NOT EXISTS (SELECT FROM public.released) LOOP
                     PERFORM pg_sleep(0.01);
                 END LOOP;
             END $$",
        )
    });
    let until = |select: &str| while server.sql(&url, select) != "1" {};
    until(
        "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted
           AND relation = 'graph_store.item'::regclass",
    );
    let ops = ["x", "y"].map(|key| Op::Put(Put::new(&["a"], key, json!({})).unwrap()));
    let batch = tokio::spawn({
        let store = store.clone();
        async move { store.batch(ops.to_vec()).await }
    });
    let waits =
        "FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    until(&format!("SELECT count(*) {waits}"));
    assert_eq!(server.sql(&url, &format!("SELECT pg_terminate_backend(pid) {waits}")), "t");
    server.sql(&url, "INSERT INTO released VALUES (1)");
    batch.await.unwrap().unwrap();
    locker.await.unwrap();
    assert_eq!(store.search(Search::everything()).await.unwrap().len(), 3);
}

#[tokio::test]
async fn encrypted_values_are_unreadable_in_the_database() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    let keys = Keys::parse(KEY).unwrap();
    let database = Postgres::settings().encrypt(keys).connect(&url).await.unwrap();
    let store = PostgresStore::new(&database);
    store.put(&["a"], "k", json!({"text": "the launch code"})).await.unwrap();
    assert_eq!(store.get(&["a"], "k").await.unwrap().unwrap().value["text"], "the launch code");
    let plain =
        "SELECT count(*) FROM graph_store.item WHERE position('launch code'::bytea IN value) > 0";
    assert_eq!(server.sql(&url, plain), "0");
    let keyless = PostgresStore::new(&Postgres::connect(&url).await.unwrap());
    assert!(keyless.get(&["a"], "k").await.is_err());
    keyless.put(&["a"], "k", json!({"text": "the launch code"})).await.unwrap();
    assert_eq!(server.sql(&url, plain), "1", "the query finds plain text");
}

fn key(node: &str, input: u32) -> CacheKey {
    CacheKey { node: node.to_owned(), input: TaskId::from_parts(&[&input.to_le_bytes()]) }
}

fn result(value: Value) -> CachedResult {
    let write = FieldWrite { field: "x".to_owned(), value, overwrite: false };
    CachedResult { writes: vec![write], gotos: vec![] }
}

#[tokio::test]
async fn sizes_include_items_and_cache() {
    let Some(server) = postgres::shared() else { return };
    let (_, database) = open(server).await;
    let saver = PostgresSaver::new(&database);
    assert_eq!(saver.sizes().await.unwrap(), Sizes::default());
    let put = Put::new(&["notes"], "one", json!({"text": "x".repeat(1_000)})).unwrap();
    PostgresStore::new(&database).put_item(put).await.unwrap();
    PostgresCache::new(&database).put(key("a", 1), result(json!("y".repeat(1_000))), None).await;
    let sizes = saver.sizes().await.unwrap();
    assert_eq!((sizes.items, sizes.cached, sizes.threads), (1, 1, 0));
    assert!((1_000..1_200).contains(&sizes.item_bytes), "{sizes:?}");
    assert!((1_000..1_200).contains(&sizes.cached_bytes), "{sizes:?}");
    assert_eq!(saver.thread_sizes("t").await.unwrap(), Sizes::default());
}

#[tokio::test]
async fn cached_results_are_found_expire_and_are_cleared() {
    let Some(server) = postgres::shared() else { return };
    let (url, database) = open(server).await;
    let clock = Clock::default();
    let clock_of_cache = clock.clone();
    let cache = PostgresCache::new(&database).with_clock(move || clock_of_cache.now());
    cache.put(key("a", 0), result(json!(0)), None).await;
    cache.put(key("a", 0), result(json!("\0é")), None).await;
    cache.put(key("a\0", 0), result(json!(1)), Some(Duration::MAX)).await;
    for input in 0..40 {
        cache.put(key("b", input), result(json!(2)), Some(10 * SECOND)).await;
    }
    assert_eq!(cache.get(&key("a", 0)).await, Some(result(json!("\0é"))));
    assert_eq!(cache.get(&key("a", 1)).await, None);
    clock.advance(9);
    assert!(cache.get(&key("b", 7)).await.is_some());
    clock.advance(1);
    assert_eq!(cache.get(&key("b", 7)).await, None);
    assert_eq!(cache.get(&key("a\0", 0)).await, Some(result(json!(1))));

    let rows = || server.sql(&url, "SELECT count(*) FROM graph_store.cached");
    assert_eq!(rows(), "42");
    // An expired entry can be replaced.
    cache.put(key("b", 7), result(json!(3)), None).await;
    assert_eq!(cache.get(&key("b", 7)).await, Some(result(json!(3))));
    assert_eq!(rows(), "26");
    cache.clear(Some("a")).await;
    assert_eq!(cache.get(&key("a", 0)).await, None);
    assert!(cache.get(&key("a\0", 0)).await.is_some());
    cache.clear(None).await;
    assert_eq!(rows(), "0");
    assert_eq!(cache.failures().count, 0);

    server.sql(&url, "DROP TABLE graph_store.cached");
    cache.put(key("a", 0), result(json!(0)), None).await;
    assert_eq!(cache.get(&key("a", 0)).await, None);
    assert_eq!(cache.failures().count, 2);
}
