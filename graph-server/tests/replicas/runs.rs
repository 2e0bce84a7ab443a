//! Runs that replicas share, and requests for a run that another replica executes.

use std::collections::HashSet;

use reqwest::Method;
use serde_json::json;

use crate::process::{Cluster, job};

/// Duration of a round that no test waits for, in milliseconds.
const FOREVER: u64 = 600_000;

#[tokio::test]
async fn replicas_share_runs_and_each_can_cancel_all() {
    let Some(cluster) = Cluster::start() else { return };
    let (a, b) = (cluster.replica(1), cluster.replica(1));
    let mut runs = Vec::new();
    for label in ["x", "y"] {
        runs.push(a.start(&a.new_thread().await, &job(label, 1, FOREVER)).await);
    }
    // Each replica executes one run, so the second run is executed by the other replica.
    cluster.wait_for_effects(2).await;
    let processes: HashSet<_> = cluster.effects().iter().map(|it| it.2).collect();
    assert_eq!(processes, HashSet::from([a.id(), b.id()]));
    for (run, replica) in runs.iter().flat_map(|run| [(run, &a), (run, &b)]) {
        assert_eq!(replica.get(run).await["status"], "running");
    }
    for run in &runs {
        b.post(&format!("{run}/cancel?wait=1"), &json!({})).await;
        let stored = a.get(run).await;
        assert_eq!(stored["status"], "interrupted", "{stored}");
    }
}

#[tokio::test]
async fn a_pending_run_is_cancelled_through_any_replica() {
    let Some(cluster) = Cluster::start() else { return };
    let (a, b) = (cluster.replica(4), cluster.replica(4));
    let thread = a.new_thread().await;
    let first = a.start(&thread, &job("first", 1, FOREVER)).await;
    cluster.wait_for_effects(1).await;
    let second = a.start(&thread, &job("second", 1, 0)).await;
    b.post(&format!("{second}/cancel?wait=1"), &json!({})).await;
    assert_eq!(a.get(&second).await["status"], "interrupted");
    assert_eq!(a.get(&first).await["status"], "running");
    b.post(&format!("{first}/cancel?wait=1&action=rollback"), &json!({})).await;
    let (status, _) = a.send(Method::GET, &first, &json!({})).await;
    assert_eq!(status, 404, "a rollback deletes the run");
    assert_eq!(a.get(&thread).await["status"], "idle");
}

#[tokio::test]
async fn multitask_strategies_hold_across_replicas() {
    let Some(cluster) = Cluster::start() else { return };
    let (a, b) = (cluster.replica(4), cluster.replica(4));
    let thread = a.new_thread().await;
    let path = format!("{thread}/runs");
    let first = a.start(&thread, &job("first", 1, FOREVER)).await;
    cluster.wait_for_effects(1).await;
    let with = |label, strategy| {
        let mut body = job(label, 1, 0);
        body["multitask_strategy"] = json!(strategy);
        body
    };
    let (status, _) = b.send(Method::POST, &path, &with("rejected", "reject")).await;
    assert_eq!(status, 409);
    let waiting = b.start(&thread, &with("waiting", "enqueue")).await;
    assert_eq!(a.get(&waiting).await["status"], "pending");
    // Interrupts the first run and the run that waits for it.
    let last = b.start(&thread, &with("last", "interrupt")).await;
    let values = a.get(&format!("{last}/join")).await;
    assert_eq!(values["label"], "last", "{values}");
    for run in [&first, &waiting] {
        assert_eq!(b.get(run).await["status"], "interrupted");
    }
    assert_eq!(a.get(&last).await["status"], "success");
}

#[tokio::test]
async fn a_run_without_a_thread_is_answered_by_the_replica_that_received_it() {
    let Some(cluster) = Cluster::start() else { return };
    let (a, b) = (cluster.replica(1), cluster.replica(1));
    // Occupies one replica, so that the other one executes all later runs.
    let blocker = a.start(&a.new_thread().await, &job("blocker", 1, FOREVER)).await;
    cluster.wait_for_effects(1).await;
    for replica in [&a, &b] {
        let values = replica.post("/runs/wait", &job("short", 2, 0)).await;
        assert_eq!(values["done"], 2, "{values}");
    }
    b.post(&format!("{blocker}/cancel?wait=1"), &json!({})).await;
}
