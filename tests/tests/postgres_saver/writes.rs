//! The conformance suite, concurrent writes, and the number of rows and statements that the saver needs.

use std::{fs, sync::Arc};

use checkpoint_testkit::checkpointer;
use graph_core::checkpoint::{
    Change, CheckpointError, CheckpointId, CheckpointKey, CheckpointWrite, Checkpointer,
    HistoryQuery, Keep, Lookup,
};
use graph_store::{
    Postgres, PostgresSaver,
    postgres::{
        connections::Connections,
        deadpool_postgres::{Manager, Pool, tokio_postgres::NoTls},
    },
};
use graph_tests::postgres::{self, Server};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{done, extend, head, put, saver, step};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saver_passes_the_conformance_suite() {
    let Some(url) = postgres::fresh_database() else { return };
    let pool =
        Pool::builder(Manager::new(url.parse().unwrap(), NoTls)).max_size(8).build().unwrap();
    let database = Postgres::from_pool(pool.clone()).await.unwrap();
    let report = checkpointer::run(|| async {
        // Truncating the tables is ten times faster than creating them.
        let empty = "TRUNCATE graph_store.namespace, graph_store.checkpoint, graph_store.link,
                         graph_store.record, graph_store.lease";
        pool.get().await.unwrap().batch_execute(empty).await.unwrap();
        Arc::new(PostgresSaver::new(&database)) as Arc<dyn Checkpointer>
    });
    report.await.assert();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cached_base_is_validated() {
    let Some(url) = postgres::fresh_database() else { return };
    let (one, two) = (saver(&url).await, saver(&url).await);
    let first = step("t", None);
    let id = put(&one, first.clone()).await.unwrap();
    // Replaces the thread with one that has the same name and checkpoint id, but different links (stored changes).
    two.delete_thread("t").await.unwrap();
    let mut other = first;
    other.changes = vec![extend(json!("other"))];
    put(&two, other).await.unwrap();
    put(&one, step("t", Some(id))).await.unwrap();
    assert_eq!(head(&one, "t").await.values["log"], json!(["other", "x"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writers_and_pruning_do_not_interfere() {
    let Some(url) = postgres::fresh_database() else { return };
    let (saver, cleaner) = (saver(&url).await, saver(&url).await);
    let names: Vec<String> = (0..16).map(|n| format!("thread {n}")).collect();
    let mut writers = JoinSet::new();
    for thread in names.clone() {
        let saver = saver.clone();
        writers.spawn(async move {
            let _lease = saver.lease(&thread).await.unwrap();
            let mut head = put(&saver, step(&thread, None)).await.unwrap();
            for _ in 0..60 {
                head = put(&saver, step(&thread, Some(head))).await.unwrap();
            }
        });
    }
    while !writers.is_empty() {
        cleaner.prune(&names, Keep::Newest(3)).await.unwrap();
        while let Some(done) = writers.try_join_next() {
            done.unwrap();
        }
    }
    cleaner.prune(&names, Keep::Newest(3)).await.unwrap();
    for thread in &names {
        assert_eq!(head(&saver, thread).await.values["log"], json!(vec!["x"; 61]));
    }
    assert_eq!(saver.sizes().await.unwrap().checkpoints, 16 * 3);
    // Pruning has already removed all unneeded links.
    assert_eq!(cleaner.database().vacuum().await.unwrap().links, 0);
}

// With one thread, all writes are queued before the first reply is read.
#[tokio::test]
async fn batched_writes_are_acknowledged_individually() {
    if postgres::shared().is_none() {
        return;
    }
    let server = Server::with_settings(&[("log_statement", "all")]).unwrap();
    let url = server.fresh_database();
    let saver = saver(&url).await;
    put(&saver, step("first", None)).await.unwrap();
    server.sql(&url, "ALTER TABLE graph_store.checkpoint ADD CHECK (run <> 'bad')");
    // All writes are in flight before the first of them completes.
    let write_concurrently = |kind: usize| {
        let mut writers = JoinSet::new();
        for n in 0..64 {
            let saver = saver.clone();
            writers.spawn(async move {
                let thread = format!("{kind} {n}");
                let mut next = step(&thread, None);
                match n % kind {
                    1 => next.expected_head = Some(CheckpointId::next()),
                    2 => next.header.run = "bad".to_owned(),
                    _ => {}
                }
                (n % kind, put(&saver, next).await)
            });
        }
        writers.join_all()
    };
    let before = statements(&server);
    let answers = write_concurrently(1).await;
    assert!(answers.iter().all(|it| it.1.is_ok()), "{answers:?}");
    let n_statements = statements(&server) - before;
    assert!(n_statements < 40, "{n_statements} statements for 64 writes");
    for (kind, answer) in write_concurrently(4).await {
        match (kind, answer) {
            (0 | 3, Ok(_)) | (1, Err(CheckpointError::HeadMoved { .. })) => {}
            (2, Err(error)) if error.to_string().contains("check constraint") => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(saver.sizes().await.unwrap().checkpoints, 1 + 64 + 32);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_connections_create_the_tables_once() {
    let Some(url) = postgres::fresh_database() else { return };
    let mut connecting = JoinSet::new();
    for n in 0..8 {
        let url = url.clone();
        connecting.spawn(async move {
            put(&saver(&url).await, step(&format!("t{n}"), None)).await.unwrap();
        });
    }
    connecting.join_all().await;
    assert_eq!(saver(&url).await.threads().await.unwrap().len(), 8);
}

/// If processes that start together executed the statements one after the other, the later ones would lock tables that
/// the first one uses already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_connections_execute_the_statements_of_a_schema_once() {
    let Some(url) = postgres::fresh_database() else { return };
    let statements = "CREATE SCHEMA IF NOT EXISTS app;
        CREATE TABLE IF NOT EXISTS app.execution (at timestamptz DEFAULT now());
        INSERT INTO app.execution DEFAULT VALUES;
        COMMENT ON SCHEMA app IS 'version 1'";
    let mut connecting = JoinSet::new();
    for _ in 0..8 {
        let url = url.clone();
        connecting.spawn(async move {
            let connections = Connections::open(&url, "test", 1).await.unwrap();
            connections.create_tables("app", 1, statements).await.unwrap();
        });
    }
    connecting.join_all().await;
    let connections = Connections::open(&url, "test", 1).await.unwrap();
    let count = connections.query("SELECT count(*) FROM app.execution", &[]).await.unwrap();
    assert_eq!(count[0].get::<_, i64>(0), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_list_is_read_from_few_rows_and_stored_at_most_twice() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    let saver = saver(&url).await;
    let mut head_id = None;
    for n in 0..2_000 {
        let mut next = step("t", head_id);
        next.changes = vec![extend(json!(format!("item {n} {}", "-".repeat(80))))];
        head_id = Some(put(&saver, next).await.unwrap());
    }
    let list = head(&saver, "t").await.values["log"].as_array().unwrap().clone();
    assert_eq!(list.len(), 2_000);
    assert!(list[1_999].as_str().unwrap().starts_with("item 1999 "));
    let rows = server.sql(
        &url,
        "WITH RECURSIVE chain AS (
             SELECT l.prev FROM graph_store.checkpoint c
             JOIN graph_store.link l ON l.id = ANY (c.links)
             WHERE c.id = (SELECT id FROM graph_store.checkpoint ORDER BY id DESC LIMIT 1)
         UNION ALL
             SELECT l.prev FROM chain JOIN graph_store.link l ON l.id = chain.prev
         ) SELECT count(*) FROM chain",
    );
    assert!(rows.parse::<u64>().unwrap() <= 210, "{rows} rows");
    let sizes = saver.thread_sizes("t").await.unwrap();
    assert_eq!((sizes.threads, sizes.checkpoints, sizes.links), (1, 2_000, 2_000));
    assert!(sizes.link_bytes < 2 * 2_000 * 120, "{sizes:?}");
    assert_eq!(sizes, saver.sizes().await.unwrap());

    // A listing reads each link (stored change) once and returns the values at each step.
    let found = saver.list(&HistoryQuery::new("t", "").limit(3)).await.unwrap();
    let lengths: Vec<_> =
        found.iter().map(|it| it.values["log"].as_array().unwrap().len()).collect();
    assert_eq!(lengths, [2_000, 1_999, 1_998]);

    // Pruning removes the rows of all checkpoints except the newest one.
    saver.prune(&["t".to_owned()], Keep::Newest(1)).await.unwrap();
    let left = saver.thread_sizes("t").await.unwrap();
    assert!(left.checkpoints == 1 && left.links <= 210, "{left:?}");
    assert_eq!(head(&saver, "t").await.values["log"], Value::Array(list));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_or_many_steps_take_one_statement() {
    if postgres::shared().is_none() {
        return;
    }
    let server = Server::with_settings(&[("log_statement", "all")]).unwrap();
    let url = server.fresh_database();
    let saver = saver(&url).await;
    let mut last = put(&saver, step("t", None)).await.unwrap();
    let before = statements(&server);
    for n in 0..20 {
        let next = step("t", Some(last));
        let (place, id) = (CheckpointKey { id: last, ..next.key.clone() }, next.key.id);
        let writes = vec![
            CheckpointWrite::Record(place, vec![done(n)]),
            CheckpointWrite::Put(Box::new(next)),
        ];
        saver.write(writes).await.unwrap();
        last = id;
    }
    // The 20 steps take one statement each. The statement is prepared only once per connection, and sequential steps
    // use the same connection.
    assert_eq!(statements(&server) - before, 20);

    let before = statements(&server);
    let (mut writes, mut head_id) = (Vec::new(), last);
    for n in 0..300 {
        let next = step("t", Some(head_id));
        writes.push(CheckpointWrite::Record(
            CheckpointKey { id: head_id, ..next.key.clone() },
            vec![done(n)],
        ));
        head_id = next.key.id;
        writes.push(CheckpointWrite::Put(Box::new(next)));
    }
    saver.write(writes.clone()).await.unwrap();
    // One statement stores all writes. At the 200th change, one additional statement compacts links.
    assert!(statements(&server) - before <= 2);
    let found = saver.list(&HistoryQuery::new("t", "")).await.unwrap();
    assert_eq!(found.len(), 321);
    assert!(found.iter().skip(1).take(320).all(|it| it.records.len() == 1));
    assert_eq!(found[0].values["log"], json!(vec!["x"; 321]));
    // After a crash, the engine repeats all or some of the writes, because it cannot know which of them were
    // stored.
    saver.write(writes.clone()).await.unwrap();
    let mut again = writes.split_off(500);
    let next = step("t", Some(head_id));
    again.push(CheckpointWrite::Put(Box::new(next)));
    saver.write(again).await.unwrap();
    assert_eq!(head(&saver, "t").await.values["log"], json!(vec!["x"; 322]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_to_several_namespaces_are_atomic() {
    let Some(url) = postgres::fresh_database() else { return };
    let saver = saver(&url).await;
    let inner = |head| {
        let mut step = step("t", head);
        step.key.namespace = "node:1".to_owned();
        step
    };
    let (root, child) = (step("t", None), inner(None));
    let (root_id, child_id) = (root.key.id, child.key.id);
    let mut wider = inner(Some(child_id));
    wider.changes.push(("more".to_owned(), Change::Set(json!(1))));
    let wider_id = wider.key.id;
    let writes = [root, child, wider].map(|it| CheckpointWrite::Put(Box::new(it)));
    saver.write(writes.to_vec()).await.unwrap();
    let found = saver.namespaces("t").await.unwrap();
    assert_eq!(found, [(String::new(), 1), ("node:1".to_owned(), 2)]);
    let read = saver.get(&Lookup::exact("t", "node:1", wider_id)).await.unwrap().unwrap();
    assert_eq!(Value::Object(read.values), json!({"log": ["x", "x"], "more": 1}));

    // The second write conflicts, so the first write is not stored either.
    let (good, late) = (step("t", Some(root_id)), inner(Some(child_id)));
    let writes = [good, late].map(|it| CheckpointWrite::Put(Box::new(it)));
    let refused = saver.write(writes.to_vec()).await;
    assert!(matches!(refused, Err(CheckpointError::HeadMoved { .. })), "{refused:?}");
    assert_eq!(head(&saver, "t").await.key.id, root_id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vacuum_deletes_orphaned_links() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    let saver = saver(&url).await;
    put(&saver, step("t", None)).await.unwrap();
    server.sql(
        &url,
        "INSERT INTO graph_store.link SELECT namespace, id + g, id, 1, '' FROM graph_store.link,
             generate_series(100000, 101199) g",
    );
    assert_eq!(saver.sizes().await.unwrap().links, 1_201);
    assert_eq!(saver.database().vacuum().await.unwrap().links, 1_200);
    assert_eq!(head(&saver, "t").await.values["log"], json!(["x"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pruning_a_step_deletes_its_subgraph_visits() {
    let Some(url) = postgres::fresh_database() else { return };
    let saver = saver(&url).await;
    let first = put(&saver, step("t", None)).await.unwrap();
    let second = put(&saver, step("t", Some(first))).await.unwrap();
    let in_flight = CheckpointId::after(Some(second));
    for (namespace, enclosing) in
        [("a:1", first), ("b:2", second), ("c:3", in_flight), ("kept", first)]
    {
        let mut inner = step("t", None);
        inner.key.namespace = namespace.to_owned();
        inner.header.parents = [(String::new(), enclosing)].into();
        put(&saver, inner).await.unwrap();
    }
    let pruned = saver.prune(&["t".to_owned()], Keep::Newest(1)).await.unwrap();
    assert_eq!(pruned.checkpoints, 2);
    let left = saver.namespaces("t").await.unwrap();
    let left: Vec<_> = left.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(left, ["", "b:2", "c:3", "kept"]);
    assert_eq!(saver.sizes().await.unwrap().links, 5);
}

/// Counts the statements in the server's log.
fn statements(server: &Server) -> usize {
    let log = fs::read_to_string(server.dir().join("log")).unwrap();
    let ours = |it: &&str| it.contains("LOG:  execute") || it.contains("LOG:  statement");
    log.lines().filter(ours).count()
}
