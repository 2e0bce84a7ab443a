//! Tests `PostgresSaver` on a real server. Runs the conformance suite for savers, and tests several clients, a
//! failing server and a shared database.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use checkpoint_testkit::{checkpointer, sample::next_checkpoint};
use graph_core::checkpoint::{
    Change, Checkpoint, CheckpointError, CheckpointId, CheckpointKey, CheckpointWrite,
    Checkpointer, HistoryQuery, Keep, Lease, Lookup, NewCheckpoint, TaskEvent, TaskId, TaskRecord,
};
use graph_store::{
    Keys, OpenError, Postgres, PostgresSaver,
    postgres::deadpool_postgres::{Manager, Pool, tokio_postgres::NoTls},
};
use graph_tests::postgres::{self, Server};
use serde_json::{Value, json};
use test_support::DEADLINE;
use tokio::task::JoinSet;

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

// Tests with two clients.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_of_an_unresponsive_client_can_be_taken_over() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    let (one, two) = (saver(&url).await, saver(&url).await);
    let lease = one.lease("t").await.unwrap();
    let first = put(&one, step("t", None)).await.unwrap();
    assert!(!one.evict_lease_holder("t").await.unwrap(), "a client does not evict itself");
    assert!(!two.evict_lease_holder("u").await.unwrap(), "nobody has leased the thread");
    assert!(matches!(two.lease("t").await, Err(CheckpointError::Busy { .. })));

    assert!(two.evict_lease_holder("t").await.unwrap());
    let _taken = lease_when_free(&two, "t").await;
    let refused = put(&one, step("t", Some(first))).await;
    assert!(matches!(refused, Err(CheckpointError::LeaseLost { .. })), "{refused:?}");
    put(&two, step("t", Some(first))).await.unwrap();
    drop(lease);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_that_lost_its_lease_cannot_write() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    let (one, two) = (saver(&url).await, saver(&url).await);
    let lease = one.lease("t").await.unwrap();
    let first = put(&one, step("t", None)).await.unwrap();
    assert!(matches!(two.lease("t").await, Err(CheckpointError::Busy { .. })));

    end_lease_sessions(server, &url).await;
    let taken = lease_when_free(&two, "t").await;
    let late = step("t", Some(first));
    let refused = put(&one, late.clone()).await;
    assert!(matches!(refused, Err(CheckpointError::LeaseLost { .. })), "{refused:?}");
    let next = put(&two, step("t", Some(first))).await.unwrap();
    assert_eq!(head(&two, "t").await.key.id, next);
    // The first client still cannot write after the second client has released the lease.
    drop((lease, taken));
    let refused = put(&one, late).await;
    assert!(refused.is_err(), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thread_released_by_one_client_is_free_for_another_one_of_the_same_process() {
    let Some(url) = postgres::fresh_database() else { return };
    let (one, two) = (saver(&url).await, saver(&url).await);
    for _ in 0..20 {
        for client in [&one, &two] {
            // Dropping the lease does not wait for the server.
            drop(client.lease("t").await.unwrap());
        }
    }
    let _lease = one.lease("t").await.unwrap();
    assert!(matches!(two.lease("t").await, Err(CheckpointError::Busy { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_session_reacquires_its_leases() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    let (one, two) = (saver(&url).await, saver(&url).await);
    let _lease = one.lease("t").await.unwrap();
    let first = put(&one, step("t", None)).await.unwrap();
    end_lease_sessions(server, &url).await;
    // No other client has leased the thread, so writes succeed. A write that finds the session closed opens a new
    // session, which acquires the lease. On a busy machine, this can take more than a few writes.
    let mut head = first;
    put_until(&one, &mut head, || lease_sessions(server, &url) == "1").await;
    let _other = one.lease("other").await.unwrap();
    assert!(matches!(two.lease("t").await, Err(CheckpointError::Busy { .. })));
    put(&one, step("t", Some(head))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn occupied_lease_lock_is_retried() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    let (one, two) = (saver(&url).await, saver(&url).await);
    let _lease = one.lease("t").await.unwrap();
    let mut head = put(&one, step("t", None)).await.unwrap();
    // This client waits for the lock of the lease and acquires it when the session of the lease ends. It behaves like a
    // stale session that the server has not detected yet.
    let pool = Pool::builder(Manager::new(url.parse().unwrap(), NoTls)).build().unwrap();
    let client = pool.get().await.unwrap();
    let queued = tokio::spawn(async move {
        let lock = "SELECT pg_advisory_lock(graph_store.lock_of('lease', 't'))";
        client.batch_execute(lock).await.map(|()| client)
    });
    wait_until(|| lease_sessions(server, &url) == "2").await;
    end_lease_sessions(server, &url).await;
    let client = queued.await.unwrap().unwrap();
    // A write opens a new session as soon as the saver has noticed the end of the old one.
    put_until(&one, &mut head, || open_lease_sessions(server, &url) == "1").await;
    client.batch_execute("SELECT pg_advisory_unlock_all()").await.unwrap();
    put_until(&one, &mut head, || lease_sessions(server, &url) == "1").await;
    assert!(matches!(two.lease("t").await, Err(CheckpointError::Busy { .. })));
    put(&one, step("t", Some(head))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_saver_releases_its_leases() {
    let Some(url) = postgres::fresh_database() else { return };
    let two = saver(&url).await;
    let one = saver(&url).await;
    let lease = one.lease("t").await.unwrap();
    assert!(matches!(two.lease("t").await, Err(CheckpointError::Busy { .. })));
    drop((one, lease));
    lease_when_free(&two, "t").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_client_wins_each_step() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    let savers = [saver(&url).await, saver(&url).await];
    let mut head = put(&savers[0], step("t", None)).await.unwrap();
    // The delay lets both clients read the head before one of them commits, unless one waits for the other.
    on_every_link(server, &url, "PERFORM pg_sleep(0.02)");
    for _ in 0..10 {
        let (a, b) = tokio::join!(
            put(&savers[0], step("t", Some(head))),
            put(&savers[1], step("t", Some(head)))
        );
        let won: Vec<_> = [&a, &b].into_iter().flatten().collect();
        assert_eq!(won.len(), 1, "{a:?} {b:?}");
        head = *won[0];
    }
    let found = savers[0].list(&HistoryQuery::new("t", "")).await.unwrap();
    assert_eq!(found.len(), 11);
    assert_eq!(found[0].values["log"].as_array().unwrap().len(), 11);
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

// Tests of concurrency.

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

// Tests of efficiency.

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

// Tests of failures.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saver_survives_a_server_restart() {
    if postgres::shared().is_none() {
        return;
    }
    let server = Server::start().unwrap();
    let url = server.fresh_database();
    let saver = saver(&url).await;
    let lease = saver.lease("t").await.unwrap();
    let mut head_id = put(&saver, step("t", None)).await.unwrap();
    for _ in 0..2 {
        server.crash_and_restart();
        head_id = put(&saver, step("t", Some(head_id))).await.unwrap();
        assert_eq!(head(&saver, "t").await.key.id, head_id);
    }
    drop(lease);
    let _lease = lease_when_free(&saver, "t").await;
    drop(server);
    let error = put(&saver, step("t", Some(head_id))).await.unwrap_err().to_string();
    assert!(error.contains("check that the server is running"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_connection_during_a_write_is_retried() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    let saver = saver(&url).await;
    let first = put(&saver, step("t", None)).await.unwrap();
    // The sequence counts all attempts, because its value is not rolled back with a failed transaction.
    server.sql(&url, "CREATE SEQUENCE breaks");
    on_every_link(
        server,
        &url,
        "IF nextval('breaks') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF",
    );
    let second = put(&saver, step("t", Some(first))).await.unwrap();
    assert_eq!(head(&saver, "t").await.key.id, second);
    assert_eq!(server.sql(&url, "SELECT last_value FROM breaks"), "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_schema_is_rejected_unchanged() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    server.sql(&url, "CREATE SCHEMA shop; CREATE TABLE shop.orders (n int)");
    let refused = Postgres::settings().schema("shop").connect(&url).await;
    assert!(matches!(refused, Err(OpenError::Foreign { .. })), "{refused:?}");
    assert_eq!(server.sql(&url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'shop'"), "1");
    // An empty schema is accepted, and the tables are created in it.
    server.sql(&url, "CREATE SCHEMA empty");
    let database = Postgres::settings().schema("empty").connect(&url).await.unwrap();
    put(&PostgresSaver::new(&database), step("t", None)).await.unwrap();
    assert!(saver(&url).await.threads().await.unwrap().is_empty());
    for name in ["", "a-b", "a\"b", "1a", "ä", &"x".repeat(64)] {
        let refused = Postgres::settings().schema(name).connect(&url).await.unwrap_err();
        assert!(refused.to_string().contains("is not a valid schema name"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn newer_tables_are_rejected_and_existing_ones_need_no_create_privilege() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    let plain = url.replace("postgres@", "plain@");
    server.sql(&url, "DROP ROLE IF EXISTS plain; CREATE ROLE plain LOGIN");
    let refused = Postgres::connect(&plain).await.unwrap_err().to_string();
    assert!(refused.contains("permission denied") && refused.contains("grant"), "{refused}");
    let first = put(&saver(&url).await, step("t", None)).await.unwrap();
    server.sql(
        &url,
        "GRANT USAGE ON SCHEMA graph_store TO plain;
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA graph_store TO plain;
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA graph_store TO plain",
    );
    let user = saver(&plain).await;
    let _lease = user.lease("t").await.unwrap();
    put(&user, step("t", Some(first))).await.unwrap();
    user.prune(&["t".to_owned()], Keep::Newest(1)).await.unwrap();

    server.sql(&url, "UPDATE graph_store.graph_store_version SET version = 1000");
    match Postgres::connect(&url).await {
        Err(OpenError::TooNew { found: 1_000, database, .. }) => {
            assert!(database.contains("graph_store"), "{database}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_suggest_a_fix_and_hide_the_password() {
    let Some(server) = postgres::shared() else { return };
    let address = server.url().split('@').nth(1).unwrap().split('/').next().unwrap();
    let url = |database: &str| format!("postgresql://postgres:s3cret@{address}/{database}");
    for (url, says) in [
        (url("no_such_database"), "does not exist; create it first with CREATE DATABASE"),
        (
            "postgresql://postgres:s3cret@127.0.0.1:1/x".to_owned(),
            "check that the server is running",
        ),
        ("postgresql://postgres:s3cret@[".to_owned(), "the URL must have the form postgresql://"),
        (url("postgres?sslmode=require"), "server does not support TLS; set `ssl = on`"),
        (url("postgres?sslmode=allow"), "write sslmode=disable, prefer, require"),
    ] {
        let error = Postgres::connect(&url).await.unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }
    let saver = saver(&url("postgres")).await;
    let debug = format!("{saver:?} {:?}", saver.database());
    assert!(debug.contains(address) && !debug.contains("s3cret"), "{debug}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caller_provided_pool_works() {
    let Some(url) = postgres::fresh_database() else { return };
    let pool =
        Pool::builder(Manager::new(url.parse().unwrap(), NoTls)).max_size(1).build().unwrap();
    let saver = PostgresSaver::new(&Postgres::from_pool(pool).await.unwrap());
    let _lease = saver.lease("t").await.unwrap();
    let first = put(&saver, step("t", None)).await.unwrap();
    put(&saver, step("t", Some(first))).await.unwrap();
    assert_eq!(head(&saver, "t").await.values["log"], json!(["x", "x"]));
}

/// JIT compilation must be off, because JIT-compiling the statement that reads a thread takes far longer than
/// executing it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jit_is_disabled_for_our_connections() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    let saver = saver(&url).await;
    // Replaces a function that `copy_thread` calls with one that records the JIT setting of the connection.
    let record_jit = "CREATE TABLE seen (jit text);
                CREATE OR REPLACE FUNCTION graph_store.need_read_committed() RETURNS void
                LANGUAGE sql AS $$INSERT INTO public.seen VALUES (current_setting('jit'))$$";
    server.sql(&url, record_jit);
    let copied = saver.copy_thread("a", "b").await;
    assert!(matches!(copied, Err(CheckpointError::UnknownThread { .. })), "{copied:?}");
    assert_eq!(server.sql(&url, "SELECT jit FROM seen").trim(), "off");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn encrypted_values_are_unreadable_in_the_database() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    let keys = Keys::parse(&"ab".repeat(32)).unwrap();
    let database = Postgres::settings().encrypt(keys).connect(&url).await.unwrap();
    let sealed = PostgresSaver::new(&database);
    let mut first = step("t", None);
    first.changes = vec![extend(json!("whisper"))];
    first.header.metadata.insert("note".to_owned(), json!("whisper"));
    let place = first.key.clone();
    put(&sealed, first).await.unwrap();
    sealed.record(&place, vec![done("whisper")]).await.unwrap();
    assert_eq!(head(&sealed, "t").await.values["log"], json!(["whisper"]));
    for table in ["checkpoint", "link", "record"] {
        let count = format!(
            "SELECT count(*), count(*) FILTER (WHERE position('whisper'::bytea IN body) > 0)
             FROM graph_store.{table}"
        );
        assert_eq!(server.sql(&url, &count), "1|0", "{table}");
    }
    let error = saver(&url).await.get(&Lookup::head("t", "")).await.unwrap_err().to_string();
    assert!(error.contains("is encrypted"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_reported_with_the_field() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    let saver = saver(&url).await;
    put(&saver, step("t", None)).await.unwrap();
    server.sql(&url, "UPDATE graph_store.link SET body = set_byte(body, 7, 99)");
    let error = saver.get(&Lookup::head("t", "")).await.unwrap_err().to_string();
    assert!(error.contains("field `log`") && error.contains("checksum"), "{error}");
    server.sql(&url, "DELETE FROM graph_store.link");
    let error = saver.get(&Lookup::head("t", "")).await.unwrap_err().to_string();
    assert!(error.contains("of its chain is missing"), "{error}");
}

async fn saver(url: &str) -> PostgresSaver {
    PostgresSaver::connect(url).await.unwrap()
}

async fn put(saver: &PostgresSaver, step: NewCheckpoint) -> Result<CheckpointId, CheckpointError> {
    let id = step.key.id;
    saver.put(step).await.map(|()| id)
}

async fn head(saver: &PostgresSaver, thread: &str) -> Checkpoint {
    saver.get(&Lookup::head(thread, "")).await.unwrap().unwrap()
}

/// Builds a checkpoint that appends one item to the field `log`.
fn step(thread: &str, head: Option<CheckpointId>) -> NewCheckpoint {
    next_checkpoint(thread, head, vec![extend(json!("x"))])
}

fn extend(item: Value) -> (String, Change) {
    ("log".to_owned(), Change::Extend(vec![item]))
}

fn done(value: impl Into<Value>) -> TaskRecord {
    let event = TaskEvent::Effect { key: "call".to_owned(), result: value.into() };
    TaskRecord { task: TaskId::from_parts(&[b"task"]), node: "node".to_owned(), event }
}

/// Leases a thread. Retries, because the server detects the end of a session with a delay.
async fn lease_when_free(saver: &PostgresSaver, thread: &str) -> Lease {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match saver.lease(thread).await {
            Err(CheckpointError::Busy { .. }) => {
                assert!(Instant::now() < deadline, "the lease of `{thread}` is not released");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            answer => return answer.unwrap(),
        }
    }
}

/// Makes the server execute a statement before it inserts each link.
fn on_every_link(server: &Server, url: &str, statement: &str) {
    let function = format!(
        "CREATE FUNCTION hook() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN {statement}; RETURN NEW; END $$;
         CREATE TRIGGER hook BEFORE INSERT ON graph_store.link
         FOR EACH ROW EXECUTE FUNCTION hook()"
    );
    server.sql(url, &function);
}

/// Ends the sessions that hold leases, and waits until the server has released their locks.
async fn end_lease_sessions(server: &Server, url: &str) {
    let ended = server.sql(
        url,
        // The server may evaluate conditions in any order, so the sessions are selected first.
        "WITH session AS MATERIALIZED (
             SELECT pid FROM pg_stat_activity
             WHERE application_name = 'graph-store leases' AND datname = current_database()
         )
         SELECT string_agg(pid::text, ',') FROM session WHERE pg_terminate_backend(pid)",
    );
    assert_ne!(ended, "");
    let left = format!("SELECT count(*) FROM pg_stat_activity WHERE pid IN ({ended})");
    wait_until(|| server.sql(url, &left) == "0").await;
}

fn lease_sessions(server: &Server, url: &str) -> String {
    server.sql(
        url,
        "SELECT count(DISTINCT l.pid) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
         WHERE l.locktype = 'advisory' AND d.datname = current_database()",
    )
}

fn open_lease_sessions(server: &Server, url: &str) -> String {
    server.sql(
        url,
        "SELECT count(*) FROM pg_stat_activity
         WHERE application_name = 'graph-store leases' AND datname = current_database()",
    )
}

/// Stores checkpoints of the thread `t` until the condition is true.
async fn put_until(saver: &PostgresSaver, head: &mut CheckpointId, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        *head = put(saver, step("t", Some(*head))).await.unwrap();
        if condition() {
            return;
        }
        assert!(Instant::now() < deadline, "the condition did not become true");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn wait_until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "the condition did not become true");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Counts the statements in the server's log.
fn statements(server: &Server) -> usize {
    let log = fs::read_to_string(server.dir().join("log")).unwrap();
    let ours = |it: &&str| it.contains("LOG:  execute") || it.contains("LOG:  statement");
    log.lines().filter(ours).count()
}

/// Isolation levels other than READ COMMITTED must be rejected, because their checks would use a snapshot that is
/// older than the lock.
#[tokio::test]
async fn other_isolation_levels_are_rejected() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    let saver = PostgresSaver::connect(&url).await.unwrap();
    assert!(saver.threads().await.unwrap().is_empty());
    let name = url.rsplit('/').next().unwrap();
    let set =
        format!("ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'");
    server.sql(server.url(), &set);
    let saver = PostgresSaver::connect(&url).await.unwrap();
    let error = saver.lease("t").await.unwrap_err().to_string();
    assert!(error.contains("READ COMMITTED"), "{error}");
}
