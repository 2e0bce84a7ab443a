//! Tasks that are executed by workers other than the worker of their run.

use std::{collections::BTreeSet, time::Duration};

use fastrand::Rng;
use graph_cluster::RunStatus;
use graph_core::StreamMode;
use graph_tests::crash::seed;
use graph_trace::{Header, TraceBuilder};
use rustix::process::Signal;
use test_support::is_nightly;

use crate::{
    cluster::{Cluster, SHORT_LEASE},
    kill::{Effect, check_effects, check_effects_after_takeovers},
    local::{self, JobSpec},
    scenarios::check_events,
};

/// Spreads the tasks of all steps over the workers, two at a time for each of them.
const SPREAD: [&str; 4] = ["--fan-out", "1", "--task-capacity", "2"];
/// Like [`SPREAD`], for workers that are killed or suspended.
const SPREAD_SHORT_LEASE: [&str; 6] =
    ["--fan-out", "1", "--task-capacity", "2", SHORT_LEASE[0], SHORT_LEASE[1]];
const WIDE: JobSpec = JobSpec { rounds: 2, width: 12, pause_ms: 60, ask: false };

fn is_start(line: &str) -> bool {
    Effect::parse(line).is_start
}

/// Returns the workers that have started effects.
fn effect_workers(cluster: &Cluster) -> BTreeSet<String> {
    workers_of(&cluster.effects())
}

fn workers_of(lines: &[String]) -> BTreeSet<String> {
    let started = lines.iter().map(|it| Effect::parse(it)).filter(|it| it.is_start);
    started.map(|it| it.worker.to_owned()).collect()
}

pub(crate) async fn wide_step_runs_on_several_workers(cluster: &Cluster) {
    let _workers = (cluster.worker_with(&SPREAD).await, cluster.worker_with(&SPREAD).await);
    let request = WIDE.request("r", "t");
    let expected = local::run(&request).await;
    cluster.client.start(&request).await.expect("the run starts");
    check_events(cluster, "r", expected.events).await;
    cluster.check_values("r", &expected.values).await;
    check_effects(cluster, 0);
    assert_eq!(cluster.sql("SELECT count(*) FROM graph_cluster.task"), "0");
    // One worker could have executed all tasks while the other one was slow. With its capacity of two, it cannot
    // execute four tasks that do not end.
    let logged = cluster.effects().len();
    let endless = JobSpec { rounds: 1, width: 4, pause_ms: 3_600_000, ask: false };
    cluster.client.start(&endless.request("endless", "u")).await.expect("the run starts");
    cluster.wait_for_effects(logged + 4, "endless").await;
    assert_eq!(workers_of(&cluster.effects()[logged..]).len(), 2);
}

pub(crate) async fn spread_tasks_have_the_trace_of_a_local_run(cluster: &Cluster) {
    let _workers = (cluster.worker_with(&SPREAD).await, cluster.worker_with(&SPREAD).await);
    let request = WIDE.request("r", "t").stream_modes(StreamMode::DEBUG);
    cluster.client.start(&request).await.expect("the run starts");
    let mut builder = TraceBuilder::new();
    let mut events = cluster.client.events("r", 0);
    while let Some(event) = events.next().await.expect("the database is running") {
        builder.add_event(&event.into_event("r".into()));
    }
    let trace = builder.finish(Header::default(), graph_trace::RunStatus::Done);
    assert_eq!(local::to_text(&trace), local::trace_text(&request).await);
}

/// PostgreSQL's JSON functions reject NUL characters.
pub(crate) async fn input_may_contain_nul_characters(cluster: &Cluster) {
    let _worker = cluster.worker_with(&SPREAD).await;
    let request = WIDE.request("r", "t").input("label", "a\0b");
    let expected = local::run(&request).await;
    cluster.client.start(&request).await.expect("the run starts");
    cluster.check_values("r", &expected.values).await;
}

/// The workers have more capacity than the step has tasks, and no task ends.
pub(crate) async fn workers_share_the_tasks_of_a_step(cluster: &Cluster) {
    let options = ["--fan-out", "1"];
    let _workers = (cluster.worker_with(&options).await, cluster.worker_with(&options).await);
    cluster.sql(
        "CREATE TABLE claim (tx bigint);
        CREATE FUNCTION log_claim() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO claim VALUES (txid_current());
            RETURN NULL;
        END $$;
        CREATE TRIGGER log_claim AFTER UPDATE ON graph_cluster.task
        FOR EACH ROW WHEN (NEW.fence > OLD.fence) EXECUTE FUNCTION log_claim();
        -- A worker that reports late still counts as alive.
        CREATE FUNCTION keep_alive() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            NEW.seen_at = now() + interval '1 hour';
            RETURN NEW;
        END $$;
        CREATE TRIGGER keep_alive BEFORE UPDATE ON graph_cluster.worker
        FOR EACH ROW EXECUTE FUNCTION keep_alive();
        UPDATE graph_cluster.worker SET draining = false",
    );
    let endless = JobSpec { rounds: 1, width: 12, pause_ms: 3_600_000, ask: false };
    cluster.client.start(&endless.request("r", "t")).await.expect("the run starts");
    cluster.wait_for_effects(12, "r").await;
    // If one worker is slow, the other one takes the remaining tasks too, but only later.
    let largest = "SELECT max(tasks) FROM (SELECT count(*) AS tasks FROM claim GROUP BY tx) t";
    let largest: u32 = cluster.sql(largest).parse().expect("tasks were claimed");
    assert!(largest <= 6, "a worker claimed {largest} of 12 tasks in one transaction");
}

pub(crate) async fn small_steps_stay_on_the_worker_of_the_run(cluster: &Cluster) {
    let options = ["--fan-out", "13"];
    let _workers = (cluster.worker_with(&options).await, cluster.worker_with(&options).await);
    cluster.client.start(&WIDE.request("r", "t")).await.expect("the run starts");
    let run = cluster.client.wait("r").await.expect("the run exists");
    assert_eq!(run.status, RunStatus::Done, "{run:?}");
    assert_eq!(effect_workers(cluster).len(), 1);
}

pub(crate) async fn pooled_nodes_run_only_on_workers_of_their_pool(cluster: &Cluster) {
    let other = cluster.worker_with(&["--node-pool", "gpu"]).await;
    let request = JobSpec { rounds: 2, width: 3, pause_ms: 5, ask: true }.request("r", "t");
    let expected = local::run(&request).await;
    cluster.client.start(&request).await.expect("the run starts");
    // The other worker executes the run up to the first step whose nodes are bound to the pool.
    while cluster.client.run("r").await.expect("the run exists").worker.as_ref() != Some(&other.id)
        || cluster.sql("SELECT count(*) FROM graph_cluster.task") != "3"
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(cluster.effects().is_empty());
    let member = cluster.worker_with(&["--node-pool", "gpu", "--pool", "gpu"]).await;
    let run = cluster.client.wait("r").await.expect("the run exists");
    assert_eq!(run.status, RunStatus::Interrupted, "{run:?}");
    cluster.client.answer("r", "yes").await.expect("the interrupt is pending");
    cluster.check_values("r", &expected.values).await;
    assert_eq!(effect_workers(cluster), BTreeSet::from([member.id.clone()]));
    check_effects(cluster, 0);
}

pub(crate) async fn cancelling_a_run_stops_its_tasks_on_other_workers(cluster: &Cluster) {
    let _other = cluster.worker_with(&["--node-pool", "gpu"]).await;
    // The endless tasks occupy all slots of the pool.
    let slots = ["--node-pool", "gpu", "--pool", "gpu", "--task-capacity", "2"];
    let member = cluster.worker_with(&slots).await;
    let endless = JobSpec { rounds: 1, width: 2, pause_ms: 3_600_000, ask: false };
    cluster.client.start(&endless.request("r", "t")).await.expect("the run starts");
    cluster.wait_for_effects(2, "r").await;
    cluster.client.cancel("r").await.expect("the run is active");
    let run = cluster.client.wait("r").await.expect("the run exists");
    assert_eq!(run.status, RunStatus::Cancelled);
    // The nodes have stopped: their slots execute the tasks of another run.
    let next = JobSpec { rounds: 1, width: 4, pause_ms: 1, ask: false };
    cluster.client.start(&next.request("next", "t")).await.expect("the run starts");
    assert_eq!(cluster.ended("next").await.status, RunStatus::Done);
    assert_eq!(effect_workers(cluster), BTreeSet::from([member.id.clone()]));
    let recorded: Vec<_> = cluster.effects().into_iter().filter(|it| !is_start(it)).collect();
    assert!(recorded.iter().all(|it| it.contains("next.")), "{recorded:?}");
    assert_eq!(recorded.len(), 4);
}

/// Storing a message always fails.
pub(crate) async fn task_whose_messages_are_rejected_fails(cluster: &Cluster) {
    let _worker = cluster.worker_with(&SPREAD).await;
    cluster.sql(
        "CREATE FUNCTION reject() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            RAISE EXCEPTION 'the table is closed';
        END $$;
        CREATE TRIGGER reject BEFORE INSERT ON graph_cluster.task_message
            FOR EACH ROW EXECUTE FUNCTION reject()",
    );
    cluster.client.start(&WIDE.request("r", "t")).await.expect("the run starts");
    let run = cluster.ended("r").await;
    let error = run.outcome.error.unwrap_or_default();
    assert_eq!(run.status, RunStatus::Failed, "{error}");
    assert!(error.contains("the table is closed"), "{error}");
    check_effects(cluster, 0);
}

/// Reading the messages of a task always fails.
pub(crate) async fn run_whose_tasks_cannot_be_read_fails(cluster: &Cluster) {
    let _worker = cluster.worker_with(&SPREAD).await;
    let endless = JobSpec { rounds: 1, width: 2, pause_ms: 3_600_000, ask: false };
    cluster.client.start(&endless.request("r", "t")).await.expect("the run starts");
    cluster.wait_for_effects(2, "r").await;
    cluster.sql("ALTER TABLE graph_cluster.task_message RENAME COLUMN body TO content");
    let run = cluster.ended("r").await;
    let error = run.outcome.error.unwrap_or_default();
    assert_eq!(run.status, RunStatus::Failed, "{error}");
    assert!(error.contains("cannot read the result of the task"), "{error}");
}

/// The leases of the tasks expire while their only worker is stopped.
pub(crate) async fn suspended_worker_does_not_repeat_its_tasks(cluster: &Cluster) {
    let worker = cluster.worker_with(&SPREAD_SHORT_LEASE).await;
    let request = JobSpec { rounds: 2, width: 4, pause_ms: 300, ask: false }.request("r", "t");
    let expected = local::run(&request).await;
    cluster.client.start(&request).await.expect("the run starts");
    cluster.wait_for_effects(1, "r").await;
    worker.suspend();
    let held = "SELECT count(*) FROM graph_cluster.task WHERE lease_until > now()";
    while cluster.sql(held) != "0" {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    worker.signal(Signal::CONT);
    cluster.check_values("r", &expected.values).await;
    check_effects(cluster, 0);
}

pub(crate) async fn draining_worker_hands_its_tasks_over(cluster: &Cluster) {
    let first = cluster.worker_with(&SPREAD).await;
    let second = cluster.worker_with(&SPREAD).await;
    let request = WIDE.request("r", "t");
    let expected = local::run(&request).await;
    cluster.client.start(&request).await.expect("the run starts");
    cluster.wait_for_effects(3, "r").await;
    first.signal(Signal::TERM);
    assert!(first.join().success());
    cluster.check_values("r", &expected.values).await;
    check_effects(cluster, 0);
    drop(second);
}

/// Kills random workers, which execute the run, some of its tasks, or both.
pub(crate) async fn killed_workers_of_tasks_lose_nothing(cluster: &Cluster) {
    const JOB: JobSpec = JobSpec { rounds: 4, width: 6, pause_ms: 25, ask: false };
    let target = if is_nightly() { 100 } else { 4 };
    cluster.count_takeovers();
    let mut rng = Rng::with_seed(seed());
    let mut workers = Vec::new();
    for _ in 0..3 {
        workers.push(cluster.worker_with(&SPREAD_SHORT_LEASE).await);
    }
    let mut kills = 0;
    for number in 0.. {
        let run = format!("run {number}");
        let request = JOB.request(&run, &run);
        let expected = local::run(&request).await;
        let logged = cluster.effects().len();
        cluster.client.start(&request).await.expect("the run starts");
        let n_lines = 2 * (JOB.rounds * JOB.width) as usize;
        let mut points: Vec<usize> = (0..2).map(|_| logged + rng.usize(1..n_lines)).collect();
        points.sort_unstable();
        for point in points {
            cluster.wait_for_effects(point, &run).await;
            if !cluster.client.run(&run).await.expect("the run exists").status.is_active() {
                break;
            }
            workers.swap_remove(rng.usize(..workers.len())).signal(Signal::KILL);
            kills += 1;
            workers.push(cluster.worker_with(&SPREAD_SHORT_LEASE).await);
        }
        let info = cluster.client.wait(&run).await.expect("the run exists");
        assert_eq!(info.status, RunStatus::Done, "{info:?}");
        assert_eq!(info.outcome.values, expected.values, "seed {}", seed());
        if kills >= target {
            break;
        }
    }
    check_effects_after_takeovers(cluster, JOB.width);
    println!("{kills} kills, seed {}", seed());
}
