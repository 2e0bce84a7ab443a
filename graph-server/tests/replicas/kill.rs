//! A replica that is killed while it executes runs.

use std::collections::HashMap;

use serde_json::json;

use crate::process::{Cluster, Event, held_job, job};

#[tokio::test]
async fn runs_of_a_killed_replica_end_on_another_one_and_none_runs_twice() {
    const THREADS: usize = 8;
    const ROUNDS: u32 = 10;
    let Some(cluster) = Cluster::start() else { return };
    let (a, b) = (cluster.replica(4), cluster.replica(4));
    let mut runs = Vec::new();
    for number in 0..THREADS {
        let thread = a.new_thread().await;
        // The second run of each thread waits for the first one, and adds one round.
        for (label, rounds) in [("first", ROUNDS), ("second", ROUNDS + 1)] {
            let job = job(&format!("{label}-{number}"), rounds, 20);
            let replica = if number % 2 == 0 { &a } else { &b };
            runs.push((replica.start(&thread, &job).await, rounds));
        }
    }
    let is_from = |process: u32| cluster.effects().iter().any(|it| it.2 == process);
    while !is_from(a.id()) || cluster.effects().len() < THREADS {
        tokio::task::yield_now().await;
    }
    let killed = a.id();
    // Dropping the replica kills its process with SIGKILL.
    drop(a);

    for (run, rounds) in &runs {
        let values = b.get(&format!("{run}/join")).await;
        let stored = b.get(run).await;
        assert_eq!(stored["status"], "success", "{stored}");
        assert!(values["done"].as_u64().unwrap() >= u64::from(*rounds), "{values}");
        assert!(stored["attempt"].as_u64().unwrap() <= 2, "{stored}");
    }
    let mut effects: HashMap<(String, u32), Vec<u32>> = HashMap::new();
    for (label, round, process) in cluster.effects() {
        effects.entry((label, round)).or_default().push(process);
    }
    assert_eq!(effects.len(), THREADS * (ROUNDS as usize + 1), "each round of each run");
    for (round, processes) in effects {
        // An effect whose result was not stored when the replica was killed is repeated by the other replica.
        let repeated = processes.len() == 2 && processes[0] == killed && processes[1] == b.id();
        assert!(processes.len() == 1 || repeated, "{round:?} {processes:?}");
    }
    // No run returned to the killed replica, and no replica executed a run while another one did.
    let mut processes: HashMap<String, u32> = HashMap::new();
    for (label, _, process) in cluster.effects() {
        let last = processes.insert(label, process);
        assert!(last.is_none_or(|last| last == process || last == killed));
    }
}

#[tokio::test]
async fn a_stream_continues_on_another_replica_after_a_kill() {
    let Some(cluster) = Cluster::start() else { return };
    let a = cluster.replica(4);
    let run = a.start(&a.new_thread().await, &held_job("x", 10, 5)).await;
    cluster.wait_for_effects(5).await;
    let b = cluster.replica(4);
    let following = b.open_stream(&run, "-1").await;
    drop(a);
    cluster.release();
    let events = Event::read_all(following).await;
    let last = events.last().unwrap();
    assert!(last.data.contains("\"done\":10"), "{events:#?}");
    let number = |id: &str| id.split_once('-').unwrap().0.parse::<u64>().unwrap();
    assert!(events.is_sorted_by(|a, b| number(&a.id) <= number(&b.id)));
    assert_eq!(b.get(&run).await["attempt"], 2);
}

#[tokio::test]
async fn a_replica_continues_a_run_that_it_has_lost() {
    let Some(cluster) = Cluster::start() else { return };
    let a = cluster.replica(4);
    let run = a.start(&a.new_thread().await, &held_job("x", 10, 3)).await;
    cluster.wait_for_effects(3).await;
    // Simulates that the lease has expired, and that another replica has claimed the run and was killed.
    cluster.sql(
        "UPDATE graph_server.queue SET holder = 'killed', fence = fence + 1, lease_until = now()",
    );
    cluster.release();
    let stored = loop {
        // This request is answered when the replica loses the run, and when the run ends.
        a.get(&format!("{run}/join")).await;
        let stored = a.get(&run).await;
        if stored["status"] != "running" {
            break stored;
        }
    };
    assert_eq!(stored["status"], "success", "{stored}");
    assert_eq!(stored["attempt"], 2, "{stored}");
}

#[tokio::test]
async fn a_cancellation_that_a_killed_replica_has_started_is_completed() {
    let Some(cluster) = Cluster::start() else { return };
    let a = cluster.replica(1);
    let mut later = job("later", 1, 0);
    later["after_seconds"] = json!(3600);
    let run = a.start(&a.new_thread().await, &later).await;
    cluster.sql(
        "UPDATE graph_server.queue SET ending = true, holder = 'killed', fence = fence + 1,
            lease_until = now(), cancel_action = 'interrupt', cancel_reason = 'by a test'",
    );
    cluster.sql("SELECT pg_notify('graph_server', 'queued')");
    a.get(&format!("{run}/join")).await;
    let stored = a.get(&run).await;
    assert_eq!(stored["status"], "interrupted", "{stored}");
}
