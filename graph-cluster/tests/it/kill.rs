//! Workers that are killed or cut off.

use std::{collections::BTreeSet, time::Instant};

use fastrand::Rng;
use graph_cluster::{ClusterError, PostgresQueue, RunStatus, RunStore, Worker};
use graph_tests::crash::{is_nightly, seed};
use rustix::process::Signal;

use crate::{
    cluster::Cluster,
    local::{self, JobSpec, to_value},
};

const JOB: JobSpec = JobSpec { rounds: 6, width: 3, pause_ms: 15, ask: false };

/// Kills a random worker at random points of several runs.
pub(crate) async fn killed_workers_lose_nothing(cluster: &Cluster) {
    let target = if is_nightly() { 150 } else { 3 };
    let mut rng = Rng::with_seed(seed());
    let mut workers = vec![cluster.worker().await, cluster.worker().await];
    let (mut kills, mut recoveries) = (0, Vec::new());
    for number in 0.. {
        let run = format!("run {number}");
        let request = JOB.request(&run, &run);
        let expected = local::run(&request).await;
        cluster.client.start(&request).await.expect("the run starts");
        let n_lines = 2 * (JOB.rounds * JOB.width) as usize;
        let logged = cluster.effects().len();
        let mut points: Vec<usize> = (0..2).map(|_| logged + rng.usize(1..n_lines)).collect();
        points.sort_unstable();
        for point in points {
            cluster.wait_for_effects(point, &run).await;
            let info = cluster.client.run(&run).await.expect("the run exists");
            let Some(held) = workers.iter().position(|it| info.worker.as_ref() == Some(&it.id))
            else {
                continue;
            };
            let claims = info.claims;
            let killed_at = Instant::now();
            workers.remove(held).signal(Signal::KILL);
            kills += 1;
            workers.push(cluster.worker().await);
            // Recovery is the time until another worker holds the run.
            loop {
                let info = cluster.client.run(&run).await.expect("the run exists");
                if info.claims > claims || !info.status.is_active() {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            recoveries.push(killed_at.elapsed());
        }
        let info = cluster.client.wait(&run).await.expect("the run exists");
        assert_eq!(info.status, RunStatus::Done, "{info:?}");
        assert_eq!(to_value(&info.outcome.values), expected.values, "seed {}", seed());
        if kills >= target {
            break;
        }
    }
    check_effects(cluster, kills * JOB.width as usize);
    recoveries.sort_unstable();
    println!(
        "{kills} kills, seed {}; from kill to the next claim: median {:?}, maximum {:?}",
        seed(),
        recoveries[recoveries.len() / 2],
        recoveries[recoveries.len() - 1]
    );
}

/// Stops a worker without ending it, lets another worker take over, and wakes the first one up.
pub(crate) async fn cut_off_worker_cannot_write(cluster: &Cluster) {
    let first = cluster.worker().await;
    let request = JOB.request("r", "t");
    let expected = local::run(&request).await;
    cluster.client.start(&request).await.expect("the run starts");
    cluster.wait_for_effects(8, "r").await;
    first.signal(Signal::STOP);
    let _second = cluster.worker().await;
    while cluster.client.run("r").await.expect("the run exists").claims == 1 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    cluster.wait_for_effects(cluster.effects().len() + 2, "r").await;
    first.signal(Signal::CONT);
    let run = cluster.client.wait("r").await.expect("the run exists");
    assert_eq!((run.status, to_value(&run.outcome.values)), (RunStatus::Done, expected.values));
    // The first worker, awake again, executes later runs under new claims.
    let later = JOB.request("later", "t");
    cluster.client.start(&later).await.expect("the run starts");
    let later = cluster.client.wait("later").await.expect("the run exists");
    assert_eq!(later.status, RunStatus::Done);
    let events = "SELECT count(*) FROM (SELECT (body::json->>'claim')::int AS claim, seq FROM graph_cluster.event
        WHERE run = 'r') a JOIN (SELECT (body::json->>'claim')::int AS claim, seq FROM graph_cluster.event
        WHERE run = 'r') b ON a.seq < b.seq AND a.claim > b.claim";
    assert_eq!(cluster.sql(events), "0", "a worker stored events after it had lost the run");
    check_effects(cluster, 2 * JOB.width as usize);
}

pub(crate) async fn cancelling_the_run_of_a_cut_off_worker_frees_its_thread(cluster: &Cluster) {
    let first = cluster.worker().await;
    let endless = JobSpec { rounds: 1, width: 1, pause_ms: 3_600_000, ask: false };
    cluster.client.start(&endless.request("r", "t")).await.expect("the run starts");
    cluster.wait_for_effects(1, "r").await;
    first.signal(Signal::STOP);
    cluster.client.cancel("r").await.expect("the run is active");
    cluster.client.start(&JOB.request("next", "t")).await.expect("the run starts");
    let _second = cluster.worker().await;
    let run = cluster.client.wait("r").await.expect("the run exists");
    assert_eq!(run.status, RunStatus::Cancelled);
    let next = cluster.client.wait("next").await.expect("the run exists");
    assert_eq!(next.status, RunStatus::Done, "{next:?}");
}

pub(crate) async fn leg_that_ends_its_workers_fails(cluster: &Cluster) {
    cluster.client.start(&JOB.request("r", "t")).await.expect("the run starts");
    cluster.sql("UPDATE graph_cluster.run SET attempts = 20");
    let _worker = cluster.worker().await;
    let run = cluster.client.wait("r").await.expect("the run exists");
    assert_eq!(run.status, RunStatus::Failed);
    let error = run.outcome.error.unwrap_or_default();
    assert!(error.contains("20 executions"), "{error}");
    assert!(cluster.effects().is_empty());
}

pub(crate) async fn worker_without_a_checkpointer_in_its_database_does_not_start(
    cluster: &Cluster,
) {
    let store = RunStore::connect(&cluster.database).await.expect("the database is running");
    let served = Worker::new(store).serve(PostgresQueue::new(), std::future::pending()).await;
    assert!(matches!(served, Err(ClusterError::NoCheckpointer(_))), "{served:?}");
}

/// Checks that no effect started again after its result was recorded, and that only effects in flight were repeated.
fn check_effects(cluster: &Cluster, max_repeated: usize) {
    let (mut started, mut recorded, mut repeated) = (BTreeSet::new(), BTreeSet::new(), 0);
    for line in cluster.effects() {
        match line.split_once(' ') {
            Some(("started", key)) => {
                assert!(!recorded.contains(key), "effect {key} was repeated after it was recorded");
                repeated += usize::from(!started.insert(key.to_owned()));
            }
            Some(("recorded", key)) => drop(recorded.insert(key.to_owned())),
            _ => panic!("unexpected line in the effect log: {line}"),
        }
    }
    assert!(repeated <= max_repeated, "{repeated} effects were repeated");
}
