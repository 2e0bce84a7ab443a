//! A simulation of the protocol between clients, workers and the database.
//!
//! Virtual workers and clients execute the statements of this crate on a real PostgreSQL server, in an order that a
//! seed determines, and with a simulated clock: a function `sim.now()` shadows `now()`. Each statement is atomic, so
//! every interleaving of processes is a sequence of statements. A virtual worker that is not scheduled for longer than
//! its lease behaves like a process that was cut off or suspended and then continues.
//!
//! After each statement, [`History`] compares the answer of the database with what the protocol promises.

mod history;
mod statements;
mod tasks;

use std::{collections::BTreeMap, time::Duration};

use fastrand::Rng;
use serde_json::Value;
use test_support::is_nightly;

use self::{
    history::{History, LEASE, TENANT, Violation},
    statements::{GRAPH, claim_next, claim_tasks, connect, new_task, worker_id},
};
use super::{
    claims::Claim, database::RunStore, status::WorkerReport, task_writes::TaskWrite,
    tasks::TaskClaim,
};
use crate::{
    run::{RunResult, StartRun},
    run_status::RunStatus,
};

const N_WORKERS: usize = 3;
const N_THREADS: usize = 2;
const MAX_RUNS: usize = 6;
const STEPS: usize = 120;

/// A claim that a virtual worker believes it holds. `serial` distinguishes all claims of a simulation.
struct HeldRun {
    claim: Claim,
    serial: u64,
    next_seq: i64,
    step: i64,
}

/// A claim of a task that a virtual worker believes it holds.
struct HeldTask {
    claim: TaskClaim,
    serial: u64,
    next_seq: i64,
}

#[derive(Default)]
struct VirtualWorker {
    runs: Vec<HeldRun>,
    tasks: Vec<HeldTask>,
}

struct Simulation<'a> {
    store: &'a RunStore,
    rng: Rng,
    workers: [VirtualWorker; N_WORKERS],
    next_serial: u64,
    history: History,
}

impl<'a> Simulation<'a> {
    async fn start(store: &'a RunStore, seed: u64) -> Self {
        store.query("DELETE FROM graph_cluster.run", &[]).await.expect("the database is running");
        let mut simulation = Self {
            store,
            rng: Rng::with_seed(seed),
            workers: Default::default(),
            next_serial: 0,
            history: History::default(),
        };
        simulation.advance(Duration::from_secs(3600)).await;
        store.limit_tenant(TENANT, 1).await.expect("the database is running");
        for number in 0..N_WORKERS {
            let graphs = [GRAPH.to_owned()];
            let id = worker_id(number);
            let report = WorkerReport { id: &id, graphs: &graphs, served: &graphs, pools: &[] };
            store.report_worker(&report, false).await.expect("the database is running");
        }
        simulation
    }

    /// Executes random operations, and then lets one healthy worker end all runs.
    async fn run(&mut self) -> Result<(), Violation> {
        for _ in 0..STEPS {
            let worker = self.rng.usize(0..N_WORKERS);
            match self.rng.u32(0..100) {
                0..8 => self.start_run().await,
                8..13 => self.cancel_run().await,
                13..20 => self.resume_run().await,
                20..28 => {
                    let millis = self.rng.u64(0..12_000);
                    self.advance(Duration::from_millis(millis)).await;
                }
                28..30 => self.workers[worker] = VirtualWorker::default(),
                30..48 => drop(self.claim_run(worker).await?),
                48..56 => self.heartbeat(worker).await?,
                56..66 => self.append_events(worker).await?,
                66..72 => self.end_leg(worker).await?,
                72..76 => self.requeue(worker).await?,
                76..82 => self.post_tasks(worker).await?,
                82..90 => self.claim_tasks(worker).await?,
                90..95 => self.append_messages(worker).await?,
                _ => self.end_task(worker).await?,
            }
        }
        self.end_all_active().await
    }

    /// Lets all leases expire. One worker then claims and ends all active runs and tasks.
    async fn end_all_active(&mut self) -> Result<(), Violation> {
        self.workers = Default::default();
        self.advance(LEASE * 2).await;
        for _ in 0..=MAX_RUNS {
            if !self.claim_run(0).await? {
                return self.history.check_nothing_is_active();
            }
            self.end_leg(0).await?;
        }
        Err("a healthy worker could not end all runs".into())
    }

    async fn advance(&mut self, time: Duration) {
        let millis = super::requests::to_millis(time);
        let update = "UPDATE sim.clock SET at = at + $1 * interval '1 millisecond'";
        self.store.query(update, &[&millis]).await.expect("the database is running");
        self.history.now += time;
    }

    fn serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }

    async fn start_run(&mut self) {
        if self.history.runs.len() == MAX_RUNS {
            return;
        }
        let id = format!("run {}", self.history.runs.len());
        let thread = format!("thread {}", self.rng.usize(0..N_THREADS));
        let mut request = StartRun::new(&id, GRAPH, &thread);
        if self.rng.bool() {
            request = request.tenant(TENANT);
        }
        self.store.insert_run(&request, "simulation").await.expect("the request is valid");
        self.history.started(&request);
    }

    fn random_run(&mut self) -> Option<String> {
        let runs: Vec<&String> = self.history.runs.keys().collect();
        self.rng.choice(runs).cloned()
    }

    async fn cancel_run(&mut self) {
        let Some(run) = self.random_run() else { return };
        if self.store.request_cancel(&run).await.expect("the database is running") {
            self.history.cancelled(&run);
        }
    }

    async fn resume_run(&mut self) {
        let Some(run) = self.random_run() else { return };
        let info = self.store.read_run(&run).await.expect("the run exists");
        let answers = BTreeMap::from([("question".to_owned(), Value::from(info.leg))]);
        let is_ended = matches!(info.status, RunStatus::Interrupted | RunStatus::Failed);
        if is_ended && self.store.queue_leg(&info, &answers).await.expect("the run exists") {
            self.history.resumed(&run);
        }
    }

    /// Returns whether a run was claimed.
    async fn claim_run(&mut self, worker: usize) -> Result<bool, Violation> {
        let Some(claim) = claim_next(self.store, worker).await else {
            return self.history.check_nothing_is_claimable().map(|()| false);
        };
        let serial = self.serial();
        self.history.claimed(&claim, serial)?;
        let next_seq = self.store.next_seq(&claim.request.id).await.expect("the run exists");
        let step = self.history.step(&claim.request.id);
        self.workers[worker].runs.push(HeldRun { claim, serial, next_seq, step });
        Ok(true)
    }

    /// Returns the index of a random claim of a worker. The worker may have lost it.
    fn held_run(&mut self, worker: usize) -> Option<usize> {
        let n_runs = self.workers[worker].runs.len();
        (n_runs > 0).then(|| self.rng.usize(0..n_runs))
    }

    async fn heartbeat(&mut self, worker: usize) -> Result<(), Violation> {
        let Some(index) = self.held_run(worker) else { return Ok(()) };
        let held = &self.workers[worker].runs[index];
        let answer = self.store.heartbeat(&held.claim, LEASE).await;
        let answer = answer.expect("the database is running");
        self.history.heartbeat(&held.claim.request.id, held.serial, answer)
    }

    async fn append_events(&mut self, worker: usize) -> Result<(), Violation> {
        let Some(index) = self.held_run(worker) else { return Ok(()) };
        let held = &mut self.workers[worker].runs[index];
        let bodies = vec!["{}".to_owned(); self.rng.usize(1..3)];
        let stored = self.store.append_events(&held.claim, held.next_seq, &bodies).await;
        let stored = stored.expect("the database is running");
        self.history.wrote("events", &held.claim.request.id, held.serial, stored)?;
        held.next_seq += if stored { bodies.len() as i64 } else { 0 };
        let n_events = self.history.stored_events(&held.claim.request.id, bodies.len(), stored);
        let next_seq = self.store.next_seq(&held.claim.request.id).await.expect("the run exists");
        if next_seq != n_events {
            return Err(format!("the next event has position {next_seq} instead of {n_events}"));
        }
        Ok(())
    }

    async fn end_leg(&mut self, worker: usize) -> Result<(), Violation> {
        let Some(index) = self.held_run(worker) else { return Ok(()) };
        let held = self.workers[worker].runs.swap_remove(index);
        let ends = [RunStatus::Done, RunStatus::Interrupted, RunStatus::Failed];
        let status = match held.claim.cancel {
            true => RunStatus::Cancelled,
            false => self.rng.choice(ends).expect("the list is not empty"),
        };
        let run = &held.claim.request.id;
        let ended = self.store.end_leg(&held.claim, status, &RunResult::default(), None).await;
        let ended = ended.expect("the database is running");
        self.history.wrote("the end of a leg", run, held.serial, ended)?;
        if ended {
            let stored = self.store.read_run(run).await.expect("the run exists").status;
            self.history.ended(run, held.claim.leg, status, stored)?;
        }
        Ok(())
    }

    async fn requeue(&mut self, worker: usize) -> Result<(), Violation> {
        let Some(index) = self.held_run(worker) else { return Ok(()) };
        let held = self.workers[worker].runs.swap_remove(index);
        let run = &held.claim.request.id;
        let before = self.store.read_run(run).await.expect("the run exists");
        self.store.requeue(&held.claim).await.expect("the database is running");
        let after = self.store.read_run(run).await.expect("the run exists");
        self.history.requeued(run, held.serial, &before, &after)
    }

    async fn post_tasks(&mut self, worker: usize) -> Result<(), Violation> {
        let Some(index) = self.held_run(worker) else { return Ok(()) };
        let held = &mut self.workers[worker].runs[index];
        held.step += i64::from(self.rng.bool());
        let step = held.step;
        let tasks = [new_task(step, 0), new_task(step, 1)];
        let posted = self.store.post_tasks(&held.claim, &tasks).await;
        let posted = posted.expect("the database is running");
        self.history.wrote("tasks", &held.claim.request.id, held.serial, posted)?;
        if posted {
            self.history.posted(&held.claim.request.id, step);
        }
        Ok(())
    }

    async fn claim_tasks(&mut self, worker: usize) -> Result<(), Violation> {
        let active: Vec<_> = self.workers[worker].tasks.iter().map(|it| &it.claim).collect();
        let claims = claim_tasks(self.store, worker, &active).await;
        for claim in claims {
            let serial = self.serial();
            self.history.claimed_task(&claim, serial)?;
            let messages = self.store.task_history(&claim).await.expect("the database is running");
            let next_seq = messages.last().map_or(0, |it| it.0 + 1);
            self.workers[worker].tasks.push(HeldTask { claim, serial, next_seq });
        }
        Ok(())
    }

    fn held_task(&mut self, worker: usize) -> Option<usize> {
        let n_tasks = self.workers[worker].tasks.len();
        (n_tasks > 0).then(|| self.rng.usize(0..n_tasks))
    }

    async fn append_messages(&mut self, worker: usize) -> Result<(), Violation> {
        let Some(index) = self.held_task(worker) else { return Ok(()) };
        // One statement stores the messages of a random task and of all later ones of the worker.
        let tasks = &mut self.workers[worker].tasks[index..];
        let write = |it: &HeldTask| TaskWrite::messages(&it.claim, it.next_seq, vec!["{}".into()]);
        let writes: Vec<TaskWrite> = tasks.iter().map(write).collect();
        let stored = self.store.write_tasks(&writes.iter().collect::<Vec<_>>()).await;
        for (held, stored) in tasks.iter_mut().zip(stored.expect("the database is running")) {
            held.next_seq += i64::from(stored);
            self.history.wrote_to_task(&held.claim, held.serial, stored)?;
        }
        Ok(())
    }

    async fn end_task(&mut self, worker: usize) -> Result<(), Violation> {
        let Some(index) = self.held_task(worker) else { return Ok(()) };
        let held = self.workers[worker].tasks.swap_remove(index);
        let write = TaskWrite::outcome(&held.claim, held.serial.to_string());
        self.store.write_tasks(&[&write]).await.expect("the database is running");
        let ids = [held.claim.id.clone()];
        let stored = self.store.read_outcomes(&held.claim.run, &ids).await;
        let stored = stored.expect("the database is running").pop().map(|it| it.1);
        self.history.ended_task(&held.claim, held.serial, stored.as_deref())
    }
}

/// Simulates seeds until one violates an invariant. Returns the seed and the violation.
async fn first_violation(store: &RunStore, n_seeds: u64) -> Option<(u64, Violation)> {
    for seed in 0..n_seeds {
        if let Err(violation) = Simulation::start(store, seed).await.run().await {
            return Some((seed, violation));
        }
    }
    None
}

#[tokio::test]
async fn no_interleaving_violates_the_protocol() {
    let Some(store) = connect("").await else { return };
    let n_seeds = if is_nightly() { 10_000 } else { 300 };
    assert_eq!(first_violation(&store, n_seeds).await, None);
}

/// If a fence is used twice, a worker that has lost its run can write.
#[tokio::test]
async fn simulation_finds_a_reused_fence() {
    let defect = "
        CREATE FUNCTION sim.reuse_fence() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN NEW.fence = OLD.fence - 1; RETURN NEW; END';
        CREATE TRIGGER reuse_fence BEFORE UPDATE ON graph_cluster.run FOR EACH ROW
            WHEN (OLD.status = 'running' AND NEW.status = 'queued') EXECUTE FUNCTION sim.reuse_fence();";
    let Some(store) = connect(defect).await else { return };
    let (_, violation) = first_violation(&store, 200).await.expect("the defect is found");
    assert!(violation.contains("fence"), "{violation}");
}

/// If a lease seems to expire early, two workers execute the same run.
#[tokio::test]
async fn simulation_finds_a_lease_that_expires_early() {
    let defect = "
        CREATE FUNCTION sim.shorten_lease() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN NEW.lease_until = sim.now() + interval ''1 second''; RETURN NEW; END';
        CREATE TRIGGER shorten_lease BEFORE UPDATE OF lease_until ON graph_cluster.run FOR EACH ROW
            WHEN (NEW.lease_until IS NOT NULL) EXECUTE FUNCTION sim.shorten_lease();";
    let Some(store) = connect(defect).await else { return };
    let (_, violation) = first_violation(&store, 200).await.expect("the defect is found");
    assert!(violation.contains("lease"), "{violation}");
}
