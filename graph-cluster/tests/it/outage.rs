//! Servers that crash, and networks that fail, while runs execute.

use std::time::Duration;

use fastrand::Rng;
use graph_cluster::{RunInfo, RunStatus, StartRun};
use graph_tests::crash::seed;
use test_support::{DEADLINE, is_nightly, report_nightly_only};
use tokio::time::timeout;

use crate::{
    cluster::{Cluster, SHORT_LEASE, SchedulerKind},
    kill::check_effects_after_takeovers,
    local::{self, JobSpec},
    proxy::{Link, Proxy},
};

const JOB: JobSpec = JobSpec { rounds: 5, width: 3, pause_ms: 20, ask: false };
/// Spreads all tasks over the workers. The lease is that of `SHORT_LEASE`.
const SPREAD: [&str; 4] = ["--fan-out", "1", SHORT_LEASE[0], SHORT_LEASE[1]];
/// Maximum duration of an outage. It exceeds the lease of the workers, so some outages are longer than the lease.
const LONG: Duration = Duration::from_millis(2500);

/// Number of outages of each kind.
fn n_outages() -> usize {
    if is_nightly() { 30 } else { 2 }
}

/// Starts a run. Retries, because the first attempts after an outage may fail.
async fn start(cluster: &Cluster, request: &StartRun) {
    while let Err(error) = cluster.client.start(request).await {
        println!("starting again: {error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits for a run. The client reports an error while the database is down.
async fn wait(cluster: &Cluster, run: &str) -> RunInfo {
    loop {
        match cluster.client.wait(run).await {
            Ok(info) => return info,
            Err(error) => println!("waiting again: {error}"),
        }
    }
}

/// Starts runs and calls `fail` in the middle of each of them.
async fn check(cluster: &Cluster, n_runs: usize, mut fail: impl AsyncFnMut(&mut Rng)) {
    cluster.count_takeovers();
    let mut rng = Rng::with_seed(seed());
    for number in 0..n_runs {
        let run = format!("run {number}");
        let request = JOB.request(&run, &run);
        let expected = local::run(&request).await;
        let logged = cluster.effects().len();
        timeout(DEADLINE, start(cluster, &request)).await.expect("the run starts");
        let n_lines = 2 * (JOB.rounds * JOB.width) as usize;
        cluster.wait_for_effects(logged + rng.usize(1..n_lines), &run).await;
        fail(&mut rng).await;
        let info = wait(cluster, &run).await;
        assert_eq!(info.status, RunStatus::Done, "{info:?}");
        assert_eq!(info.outcome.values, expected.values, "seed {}", seed());
    }
    check_effects_after_takeovers(cluster, JOB.width);
}

async fn check_database_crashes(kind: SchedulerKind) {
    let Some(cluster) = Cluster::start_with_own_server(kind).await else { return };
    let _workers = (cluster.worker_with(&SPREAD).await, cluster.worker_with(&SPREAD).await);
    check(&cluster, n_outages(), async |_| cluster.crash_database().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_survive_crashes_of_the_database() {
    check_database_crashes(SchedulerKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_of_restate_survive_crashes_of_the_database() {
    check_database_crashes(SchedulerKind::Restate).await;
}

async fn check_restate_crashes(kind: SchedulerKind) {
    let Some(cluster) = Cluster::start(kind).await else { return };
    let _workers = (cluster.worker_with(&SPREAD).await, cluster.worker_with(&SPREAD).await);
    check(&cluster, n_outages(), async |rng| cluster.crash_restate(rng).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_survive_crashes_of_the_restate_server() {
    check_restate_crashes(SchedulerKind::Restate).await;
}

/// Kills one of three nodes at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_survive_crashes_of_restate_nodes() {
    check_restate_crashes(SchedulerKind::RestateCluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_survive_the_loss_of_a_restate_node_and_of_a_worker() {
    let Some(cluster) = Cluster::start(SchedulerKind::RestateCluster).await else { return };
    let (first, _second) =
        (cluster.worker_with(&SHORT_LEASE).await, cluster.worker_with(&SHORT_LEASE).await);
    let mut first = Some(first);
    // The first outage kills a Restate node, and the second one kills a worker.
    let mut is_node_killed = false;
    check(&cluster, 2, async |_| {
        if std::mem::replace(&mut is_node_killed, true) {
            first.take();
        } else {
            cluster.kill_restate_node();
        }
    })
    .await;
}

/// One worker reaches the database through a network that fails; the other one has a reliable connection.
async fn check_network(cluster: &Cluster, link: Link) {
    let proxy = Proxy::start(&cluster.database).await;
    let _workers =
        (cluster.worker_on(&proxy.url, &SPREAD).await, cluster.worker_with(&SPREAD).await);
    check(cluster, n_outages(), async |rng| {
        proxy.set(link);
        tokio::time::sleep(LONG.mul_f64(rng.f64())).await;
        proxy.set(Link::Up);
    })
    .await;
}

pub(crate) async fn runs_survive_a_cut_network(cluster: &Cluster) {
    check_network(cluster, Link::Cut).await;
}

pub(crate) async fn runs_survive_a_network_that_forwards_nothing(cluster: &Cluster) {
    check_network(cluster, Link::Frozen).await;
}

pub(crate) async fn runs_survive_a_slow_network(cluster: &Cluster) {
    check_network(cluster, Link::Slow(Duration::from_millis(100))).await;
}

/// The Restate server reaches its workers through a network that fails.
async fn check_network_of_restate(link: Link) {
    let Some(cluster) = Cluster::start(SchedulerKind::Restate).await else { return };
    let _workers = (cluster.worker_with(&SPREAD).await, cluster.worker_with(&SPREAD).await);
    check(&cluster, n_outages(), async |rng| {
        cluster.set_restate_link(link);
        tokio::time::sleep(LONG.mul_f64(rng.f64())).await;
        cluster.set_restate_link(Link::Up);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_survive_a_cut_network_between_restate_and_its_workers() {
    check_network_of_restate(Link::Cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_survive_a_frozen_network_between_restate_and_its_workers() {
    if !is_nightly() {
        return report_nightly_only("it takes about 25 seconds");
    }
    check_network_of_restate(Link::Frozen).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_survive_a_slow_network_between_restate_and_its_workers() {
    if !is_nightly() {
        return report_nightly_only("it takes about 25 seconds");
    }
    check_network_of_restate(Link::Slow(Duration::from_millis(100))).await;
}
