//! Leases of threads, with two clients.

use std::time::{Duration, Instant};

use graph_core::checkpoint::{CheckpointError, CheckpointId, Checkpointer};
use graph_store::{
    PostgresSaver,
    postgres::deadpool_postgres::{Manager, Pool, tokio_postgres::NoTls},
};
use graph_tests::postgres::{self, Server};
use test_support::DEADLINE;

use crate::support::{head, lease_when_free, put, saver, step, wait_until};

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
