//! Workers that are killed or disconnected.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use fastrand::Rng;
use graph_cluster::{ClusterError, PostgresQueue, RunStatus, RunStore, Worker};
use graph_tests::crash::seed;
use rustix::process::Signal;
use test_support::is_nightly;

use crate::{
    cluster::{Cluster, SHORT_LEASE},
    local::{self, JobSpec},
    pause::{self, PausePoint, pause_point},
};

const JOB: JobSpec = JobSpec { rounds: 6, width: 3, pause_ms: 15, ask: false };

/// Kills a random worker at random points of several runs.
pub(crate) async fn killed_workers_lose_nothing(cluster: &Cluster) {
    let target = if is_nightly() { 150 } else { 5 };
    cluster.count_takeovers();
    let mut rng = Rng::with_seed(seed());
    let mut workers =
        vec![cluster.worker_with(&SHORT_LEASE).await, cluster.worker_with(&SHORT_LEASE).await];
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
            workers.push(cluster.worker_with(&SHORT_LEASE).await);
            // Recovery is the time until another worker holds the run.
            loop {
                let info = cluster.client.run(&run).await.expect("the run exists");
                if info.claims > claims || !info.status.is_active() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            recoveries.push(killed_at.elapsed());
        }
        let info = cluster.client.wait(&run).await.expect("the run exists");
        assert_eq!(info.status, RunStatus::Done, "{info:?}");
        assert_eq!(info.outcome.values, expected.values, "seed {}", seed());
        if kills >= target {
            break;
        }
    }
    check_effects_after_takeovers(cluster, JOB.width);
    recoveries.sort_unstable();
    println!(
        "{kills} kills, seed {}; from kill to the next claim: median {:?}, maximum {:?}",
        seed(),
        recoveries[recoveries.len() / 2],
        recoveries[recoveries.len() - 1]
    );
}

/// Statements at which workers are killed.
const POINTS: [PausePoint; 8] = [
    pause_point("graph_cluster.run", "UPDATE", "NEW.status = 'running' AND OLD.status = 'queued'"),
    pause_point("graph_cluster.run", "UPDATE", "NEW.status = 'done'"),
    pause_point("graph_cluster.event", "INSERT", "NEW.seq > 2"),
    pause_point("graph_cluster.task", "INSERT", "true"),
    pause_point("graph_cluster.task", "UPDATE", "NEW.fence > OLD.fence"),
    pause_point("graph_cluster.task", "UPDATE", "NEW.outcome IS NOT NULL"),
    pause_point("graph_cluster.task", "DELETE", "true"),
    pause_point("graph_cluster.task_message", "INSERT", "true"),
];

/// Kills all workers while one of them executes a certain statement.
pub(crate) async fn workers_killed_during_a_statement_lose_nothing(cluster: &Cluster) {
    let options = ["--fan-out", "1", SHORT_LEASE[0], SHORT_LEASE[1]];
    cluster.count_takeovers();
    pause::prepare(cluster);
    for (number, point) in POINTS.iter().enumerate() {
        let mut workers = vec![cluster.worker_with(&options).await];
        workers.push(cluster.worker_with(&options).await);
        // The second execution of the statement is in the middle of a run, even for statements that a run executes
        // once.
        pause::set(cluster, point, 1);
        let runs = [format!("a{number}"), format!("b{number}")];
        for run in &runs {
            cluster.client.start(&JOB.request(run, run)).await.expect("the run starts");
        }
        pause::wait_until_reached(cluster, point).await;
        workers.iter().for_each(|it| it.signal(Signal::KILL));
        // Waits until the processes have ended.
        drop(workers);
        pause::release(cluster, point);
        let _next = (cluster.worker_with(&options).await, cluster.worker_with(&options).await);
        for run in &runs {
            let expected = local::run(&JOB.request(run, run)).await;
            let info = cluster.client.wait(run).await.expect("the run exists");
            assert_eq!(info.status, RunStatus::Done, "{point:?}: {info:?}");
            assert_eq!(info.outcome.values, expected.values, "{point:?}");
        }
    }
    check_effects_after_takeovers(cluster, JOB.width);
}

/// Suspends a worker process, lets another worker take over, and continues the first process.
pub(crate) async fn cut_off_worker_cannot_write(cluster: &Cluster) {
    cluster.count_takeovers();
    let first = cluster.worker_with(&SHORT_LEASE).await;
    // No result is stored before the worker is suspended, so it is suspended while it executes all effects of a step.
    // Otherwise, the resumed worker could start an effect that the other worker has already recorded.
    cluster.sql(
        "CREATE TABLE suspended (number int);
        CREATE FUNCTION wait_until_suspended() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            WHILE NOT EXISTS (SELECT FROM public.suspended) LOOP PERFORM pg_sleep(0.01); END LOOP;
            RETURN NEW;
        END $$;
        CREATE TRIGGER wait_until_suspended BEFORE INSERT ON graph_store.record FOR EACH ROW
        WHEN (substring(NEW.slot FROM 1 FOR 7) = 'effect:'::bytea)
        EXECUTE FUNCTION wait_until_suspended()",
    );
    let request = JOB.request("r", "t");
    let expected = local::run(&request).await;
    cluster.client.start(&request).await.expect("the run starts");
    cluster.wait_for_effects(JOB.width as usize, "r").await;
    first.suspend();
    cluster.sql("INSERT INTO suspended VALUES (1)");
    let _second = cluster.worker_with(&SHORT_LEASE).await;
    while cluster.client.run("r").await.expect("the run exists").claims == 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    cluster.wait_for_effects(cluster.effects().len() + 2, "r").await;
    first.signal(Signal::CONT);
    cluster.check_values("r", &expected.values).await;
    // The first worker continues and executes later runs under new claims.
    let later = JOB.request("later", "t");
    cluster.client.start(&later).await.expect("the run starts");
    let later = cluster.client.wait("later").await.expect("the run exists");
    assert_eq!(later.status, RunStatus::Done);
    let events = "SELECT count(*) FROM (SELECT (body::json->>'claim')::int AS claim, seq FROM graph_cluster.event
        WHERE run = 'r') a JOIN (SELECT (body::json->>'claim')::int AS claim, seq FROM graph_cluster.event
        WHERE run = 'r') b ON a.seq < b.seq AND a.claim > b.claim";
    assert_eq!(cluster.sql(events), "0", "a worker stored events after it had lost the run");
    check_effects_after_takeovers(cluster, JOB.width);
}

pub(crate) async fn cancelling_the_run_of_a_cut_off_worker_frees_its_thread(cluster: &Cluster) {
    let first = cluster.worker_with(&SHORT_LEASE).await;
    let endless = JobSpec { rounds: 1, width: 1, pause_ms: 3_600_000, ask: false };
    cluster.client.start(&endless.request("r", "t")).await.expect("the run starts");
    cluster.wait_for_effects(1, "r").await;
    first.signal(Signal::STOP);
    cluster.client.cancel("r").await.expect("the run is active");
    cluster.client.start(&JOB.request("next", "t")).await.expect("the run starts");
    let _second = cluster.worker_with(&SHORT_LEASE).await;
    let run = cluster.client.wait("r").await.expect("the run exists");
    assert_eq!(run.status, RunStatus::Cancelled);
    let next = cluster.client.wait("next").await.expect("the run exists");
    assert_eq!(next.status, RunStatus::Done, "{next:?}");
}

/// The step takes longer than the time after which a scheduler takes the run from a worker that hangs.
pub(crate) async fn step_longer_than_the_lease_ends(cluster: &Cluster) {
    cluster.count_takeovers();
    let _worker = cluster.worker_with(&SHORT_LEASE).await;
    // Restate takes the run from the worker after three lease times and five seconds.
    let pause_ms = if cluster.restate.is_some() { 11_000 } else { 3_000 };
    let request = JobSpec { rounds: 1, width: 1, pause_ms, ask: false }.request("r", "t");
    let expected = local::run(&request.clone().input("pause_ms", 0)).await.values;
    cluster.client.start(&request).await.expect("the run starts");
    let run = cluster.ended("r").await;
    assert_eq!(run.status, RunStatus::Done, "{run:?}");
    assert_eq!(run.outcome.values["log"], expected["log"]);
    check_effects_after_takeovers(cluster, 1);
}

pub(crate) async fn leg_that_crashes_its_workers_fails(cluster: &Cluster) {
    let _worker = cluster.worker_with(&SHORT_LEASE).await;
    cluster.sql("ALTER TABLE graph_cluster.run ALTER attempts SET DEFAULT 20");
    cluster.client.start(&JOB.request("r", "t")).await.expect("the run starts");
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

/// Like [`check_effects`]. The takeover of a run repeats at most the `width` effects of one step, and the takeover of a
/// task repeats at most one effect.
pub(crate) fn check_effects_after_takeovers(cluster: &Cluster, width: u32) {
    let of_runs = cluster.n_takeovers("run") * width as usize;
    check_effects(cluster, of_runs + cluster.n_takeovers("task"));
}

/// Checks that no effect started again after its result was recorded, that only effects in flight were repeated, and
/// that all workers saw the same idempotency key.
pub(crate) fn check_effects(cluster: &Cluster, max_repeated: usize) {
    let (mut started, mut recorded, mut repeated) = (BTreeSet::new(), BTreeSet::new(), 0);
    let mut tasks = BTreeMap::new();
    for Effect { is_start, key, task, worker } in
        cluster.effects().iter().map(|it| Effect::parse(it))
    {
        let first = tasks.entry(key.to_owned()).or_insert_with(|| task.to_owned());
        assert_eq!(first, task, "the idempotency key of effect {key} differs on {worker}");
        if is_start {
            assert!(!recorded.contains(key), "effect {key} was repeated after it was recorded");
            repeated += usize::from(!started.insert(key.to_owned()));
        } else {
            recorded.insert(key.to_owned());
        }
    }
    assert!(repeated <= max_repeated, "{repeated} effects were repeated");
}

/// A line of the effect log.
pub(crate) struct Effect<'a> {
    pub(crate) is_start: bool,
    pub(crate) key: &'a str,
    /// Idempotency key of the task.
    task: &'a str,
    pub(crate) worker: &'a str,
}

impl<'a> Effect<'a> {
    pub(crate) fn parse(line: &'a str) -> Self {
        let (rest, worker) = line.rsplit_once(' ').expect("a line ends with a worker");
        let (rest, task) = rest.rsplit_once(' ').expect("the worker follows the task");
        match rest.split_once(' ') {
            Some(("started", key)) => Self { is_start: true, key, task, worker },
            Some(("recorded", key)) => Self { is_start: false, key, task, worker },
            _ => panic!("unexpected line in the effect log: {line}"),
        }
    }
}
