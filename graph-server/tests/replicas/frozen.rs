//! A replica that is suspended while it executes a run, and continues later.

use std::{collections::HashSet, time::Duration};

use serde_json::json;
use tokio::time::sleep;

use crate::process::{Cluster, held_job, job};

/// Time for a resumed replica to execute a round, try to store it, and try to renew its lease.
const GRACE: Duration = Duration::from_secs(8);
/// Tables in which runs and threads are stored.
const TABLES: [&str; 6] = [
    "graph_server.document", "graph_server.event", "graph_server.queue", "graph_store.checkpoint",
    "graph_store.link", "graph_store.record",
];

#[tokio::test]
async fn a_run_of_a_frozen_replica_ends_once_and_the_replica_writes_nothing_afterwards() {
    const ROUNDS: u32 = 6;
    let Some(cluster) = Cluster::start() else { return };
    let a = cluster.replica(4);
    let run = a.start(&a.new_thread().await, &held_job("x", ROUNDS, 2)).await;
    cluster.wait_for_effects(2).await;
    a.freeze();
    let of_a = |cluster: &Cluster| cluster.effects().iter().filter(|it| it.2 == a.id()).count();
    let n_frozen = of_a(&cluster);
    cluster.release();
    let b = cluster.replica(4);
    let values = b.get(&format!("{run}/join")).await;
    let stored = b.get(&run).await;
    assert_eq!(stored["status"], "success", "{stored} {values}");
    assert_eq!(stored["attempt"], 2, "{stored}");
    assert_eq!(values["done"], ROUNDS, "{values}");
    assert_eq!(
        cluster.sql("SELECT count(*) FROM graph_server.event WHERE output IS NOT NULL"),
        "1"
    );

    let contents =
        || TABLES.map(|table| cluster.sql(&format!("SELECT t FROM {table} t ORDER BY t::text")));
    let before = contents();
    a.thaw();
    // This request is answered once the replica has noticed that it lost the run.
    a.get(&format!("{run}/join")).await;
    sleep(GRACE).await;
    assert_eq!(contents(), before);
    assert_eq!(of_a(&cluster), n_frozen, "{:?}", cluster.effects());
    let rounds: HashSet<_> = cluster.effects().iter().map(|it| it.1).collect();
    assert_eq!(rounds, (1..=ROUNDS).collect());
    assert!(cluster.effects().len() <= ROUNDS as usize + 1, "only the round in flight is repeated");

    // Both replicas can use the thread.
    let thread = run.split("/runs/").next().unwrap();
    let next = a.start(thread, &job("y", ROUNDS + 1, 0)).await;
    assert_eq!(b.get(&format!("{next}/join")).await["done"], ROUNDS + 1);
}

#[tokio::test]
async fn cancelling_the_run_of_a_frozen_replica_frees_its_thread() {
    let Some(cluster) = Cluster::start() else { return };
    let a = cluster.replica(4);
    let thread = a.new_thread().await;
    let run = a.start(&thread, &held_job("x", 1, 1)).await;
    cluster.wait_for_effects(1).await;
    a.freeze();
    let b = cluster.replica(4);
    b.post(&format!("{run}/cancel?wait=1"), &json!({})).await;
    assert_eq!(b.get(&run).await["status"], "interrupted");
    let next = b.start(&thread, &job("y", 3, 0)).await;
    b.get(&format!("{next}/join")).await;
    let stored = b.get(&next).await;
    assert_eq!(stored["status"], "success", "{stored}");
}
