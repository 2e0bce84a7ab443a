//! Costs of a cluster: per superstep, per spread task, per worker of a fan-out, and of a lost worker.
//!
//! `cargo xtask bench cluster` runs it with worker processes of the same build and a separate PostgreSQL server. The
//! times include the polling and the notifications of the client.
#![expect(clippy::print_stdout, reason = "prints results to stdout")]

#[allow(dead_code, reason = "the tests use further functions")]
#[path = "../tests/it/cluster.rs"]
mod cluster;
#[path = "../src/bin/cluster-demo/job.rs"]
mod job;
#[allow(dead_code, reason = "the tests use further functions")]
#[path = "../tests/it/proxy.rs"]
mod proxy;
#[allow(dead_code, reason = "the tests use further functions")]
#[path = "../tests/it/restate_server.rs"]
mod restate_server;
#[allow(dead_code, reason = "the tests use further functions")]
#[path = "../tests/it/worker_process.rs"]
mod worker_process;

use std::{sync::Arc, time::Duration};

use graph_cluster::{RunStatus, StartRun};
use graph_core::Input;
use graph_store::PostgresSaver;
use rustix::process::Signal;
use tokio::time::Instant;

use self::{
    cluster::{Cluster, SHORT_LEASE, SchedulerKind},
    job::{EffectLog, Job},
};

/// Number of rounds of a job that measures supersteps. Each round has three of them: `plan`, `work` and `gather`.
const ROUNDS: u32 = 60;
const STEPS_PER_ROUND: u32 = 3;
/// Number of tasks of a fan-out.
const WIDTH: u32 = 1000;
/// Time that each task of the fan-out waits, as for the answer of a model.
const PAUSE: Duration = Duration::from_secs(1);
/// Number of tasks that a worker executes at a time.
const CAPACITY: usize = 32;
/// Options of workers with the recovery time of LangGraph's platform, which restarts a run if its worker has sent no
/// heartbeat for 120 seconds.
const LANGGRAPH_LEASE: [&str; 2] = ["--lease-ms", "120000"];
/// Number of measurements. Their median is the result.
const REPEATS: usize = 5;

#[tokio::main(worker_threads = 2)]
async fn main() {
    println!("| measurement | result |\n|---|---|");
    supersteps().await;
    supersteps_with_restate().await;
    spread_tasks().await;
    fan_out().await;
    let postgres = SchedulerKind::Postgres;
    recovery("`PostgresQueue`, lease of 1.5 s", postgres, &SHORT_LEASE, REPEATS).await;
    recovery("`Restate`", SchedulerKind::Restate, &SHORT_LEASE, REPEATS).await;
    let name = "lease of 120 s, the heartbeat timeout of LangGraph's platform";
    recovery(name, postgres, &LANGGRAPH_LEASE, 1).await;
}

fn row(name: &str, result: &str) {
    println!("| {name} | {result} |");
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

async fn start() -> Option<Cluster> {
    Cluster::start(SchedulerKind::Postgres).await
}

fn request(run: &str, rounds: u32, width: u32, pause: Duration) -> StartRun {
    StartRun::new(run, "job", run)
        .input("label", run)
        .input("rounds", rounds)
        .input("width", width)
        .input("pause_ms", u64::try_from(pause.as_millis()).unwrap_or(u64::MAX))
        .input("ask", false)
        .input("round", 0)
}

/// Executes a run on the cluster and returns its duration.
async fn execute(cluster: &Cluster, request: &StartRun) -> Duration {
    let started = Instant::now();
    cluster.client.start(request).await.expect("the run starts");
    let run = cluster.client.wait(&request.id).await.expect("the run exists");
    assert_eq!(run.status, RunStatus::Done, "{run:?}");
    started.elapsed()
}

/// Returns the number of bytes that the database has written to its log.
fn log_bytes(cluster: &Cluster) -> u64 {
    let bytes = cluster.sql("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint");
    bytes.trim().parse().expect("the position is a number")
}

/// Compares a run on a worker with the same run in this process. Both use the same checkpointer.
async fn supersteps() {
    let Some(cluster) = start().await else { return };
    let _worker = cluster.worker_with(&["--fan-out", "1000000"]).await;
    let saver = PostgresSaver::connect(&cluster.database).await.expect("the database is running");
    let graph = job::graph(Arc::new(saver), None).expect("the graph is valid");
    let (mut local, mut remote, mut empty, mut bytes) = (vec![], vec![], vec![], vec![]);
    for number in 0..REPEATS {
        let thread = graph.thread(format!("local {number}"), EffectLog::default());
        let job = Job { rounds: ROUNDS, width: 1, ..Job::default() };
        let before = log_bytes(&cluster);
        let started = Instant::now();
        let outcome = thread.run(Input::from(job)).await.expect("the job does not fail");
        assert!(outcome.interrupts().is_empty(), "the job asks no question");
        local.push(started.elapsed());
        let between = log_bytes(&cluster);
        let run = format!("remote {number}");
        remote.push(execute(&cluster, &request(&run, ROUNDS, 1, Duration::ZERO)).await);
        bytes.push((log_bytes(&cluster) - between).saturating_sub(between - before));
        let run = format!("empty {number}");
        empty.push(execute(&cluster, &request(&run, 1, 0, Duration::ZERO)).await);
    }
    bytes.sort_unstable();
    let (local, remote, empty) = (median(local), median(remote), median(empty));
    let steps = ROUNDS * STEPS_PER_ROUND;
    row("a run of one round without tasks, from `start` to `wait`", &millis(empty));
    row("a superstep in one process, with PostgreSQL", &millis(local / steps));
    row("a superstep on a worker", &millis(remote / steps));
    row("overhead of a superstep", &millis(remote.saturating_sub(local) / steps));
    let bytes = bytes[bytes.len() / 2] / u64::from(steps);
    row("further bytes in the log of PostgreSQL, per superstep", &bytes.to_string());
}

/// Measures the same run with Restate as its scheduler, and the entries that the run adds to Restate's journal.
async fn supersteps_with_restate() {
    let Some(cluster) = Cluster::start(SchedulerKind::Restate).await else { return };
    let _worker = cluster.worker_with(&["--fan-out", "1000000"]).await;
    let mut times = Vec::new();
    for number in 0..REPEATS {
        let run = format!("run {number}");
        times.push(execute(&cluster, &request(&run, ROUNDS, 1, Duration::ZERO)).await);
    }
    let steps = ROUNDS * STEPS_PER_ROUND;
    row("a superstep on a worker, with Restate", &millis(median(times) / steps));
    // The last entry of a run is written after its result.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (entries, bytes) = read_journal(&cluster).await;
    let per_run = |total: u64| total as f64 / REPEATS as f64;
    let bytes = per_run(bytes) / f64::from(steps);
    row("bytes in the journal of Restate, per superstep", &format!("{bytes:.1}"));
    row("entries in the journal of Restate, per run", &format!("{:.1}", per_run(entries)));
}

/// Returns the number of entries in the journals of all runs, and their size in bytes.
async fn read_journal(cluster: &Cluster) -> (u64, u64) {
    let server = cluster.restate.as_ref().expect("the cluster uses Restate");
    let query = "SELECT count(*) AS entries, sum(raw_length) AS bytes FROM sys_journal";
    let request = reqwest::Client::new()
        .post(format!("{}/query", server.server.admin()))
        .header("content-type", "application/json")
        .header("accept", "application/json")
        .body(serde_json::json!({ "query": query }).to_string());
    let answer = request.send().await.expect("the server is running").text().await;
    let answer = answer.expect("the answer is text");
    let rows: serde_json::Value = serde_json::from_str(&answer).expect("the answer is JSON");
    let number = |name: &str| {
        rows["rows"][0][name].as_u64().unwrap_or_else(|| panic!("no {name} in {answer}"))
    };
    (number("entries"), number("bytes"))
}

/// Compares tasks on the worker of the run with tasks that go through the database.
async fn spread_tasks() {
    let mut times = Vec::new();
    for min_tasks in ["1000000", "1"] {
        let Some(cluster) = start().await else { return };
        let _worker = cluster.worker_with(&["--fan-out", min_tasks]).await;
        let mut measured = Vec::new();
        for number in 0..REPEATS {
            let run = format!("run {number}");
            measured.push(execute(&cluster, &request(&run, 1, 200, Duration::ZERO)).await);
        }
        times.push(median(measured));
    }
    if let [local, spread] = times[..] {
        row("a task with one effect on the worker of the run", &millis(local / 200));
        row("the same task through the database", &millis(spread / 200));
    }
}

/// Measures a fan-out of waiting tasks over several workers.
async fn fan_out() {
    for n_workers in [1_u32, 2, 4] {
        let Some(cluster) = start().await else { return };
        let mut workers = Vec::new();
        let capacity = CAPACITY.to_string();
        for _ in 0..n_workers {
            let options = ["--fan-out", "2", "--task-capacity", &capacity];
            workers.push(cluster.worker_with(&options).await);
        }
        let time = execute(&cluster, &request("run", 1, WIDTH, PAUSE)).await;
        let batches = f64::from(WIDTH) / (CAPACITY as f64 * f64::from(n_workers));
        let ideal = PAUSE.mul_f64(batches.ceil());
        let name = format!("{WIDTH} tasks of {} over {n_workers} workers", millis(PAUSE));
        row(&name, &format!("{} (tasks alone: {})", millis(time), millis(ideal)));
    }
}

/// Measures the time from the death of a worker to the next claim of its run.
async fn recovery(name: &str, kind: SchedulerKind, lease: &[&str], repeats: usize) {
    let Some(cluster) = Cluster::start(kind).await else { return };
    let mut workers = vec![cluster.worker_with(lease).await, cluster.worker_with(lease).await];
    let mut times = Vec::new();
    for number in 0..repeats {
        let run = format!("run {number}");
        // The run does not end before it is cancelled.
        let request = request(&run, 1_000_000, 1, Duration::from_millis(20));
        let logged = cluster.effects().len();
        cluster.client.start(&request).await.expect("the run starts");
        cluster.wait_for_effects(logged + 4, &run).await;
        let info = cluster.client.run(&run).await.expect("the run exists");
        let worker = info.worker.expect("the run is executing");
        let index = workers.iter().position(|it| it.id == worker).expect("the worker is known");
        let killed = Instant::now();
        workers.swap_remove(index).signal(Signal::KILL);
        while cluster.client.run(&run).await.expect("the run exists").claims == info.claims {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        times.push(killed.elapsed());
        cluster.client.cancel(&run).await.expect("the run is active");
        cluster.client.wait(&run).await.expect("the run exists");
        workers.push(cluster.worker_with(lease).await);
    }
    row(&format!("from `kill -9` to the next claim, {name}"), &millis(median(times)));
}
