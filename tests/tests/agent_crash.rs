//! Kills a process that runs agents at every write, resumes the agents in another process, and checks that no tool
//! result is lost and that no stored result is computed again. The agents hand the conversation to each other and wait
//! for answers from a person.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::Command,
};

use graph_core::Durability;
use graph_tests::{
    crash::{
        agent_job::{self, AgentJob, AgentReport},
        case::block_on,
        killing_hook::CrashPlan,
        location::StoreLocation,
        logs,
        stored_thread::StoredThread,
        worker::durability_arg,
    },
    postgres,
};
use tempfile::TempDir;
use test_support::is_nightly;

const SIGKILL: i32 = 9;

/// One thread of the agents, and the processes that run it.
struct Case {
    job: AgentJob,
    durability: Durability,
    location: StoreLocation,
    thread: String,
    /// Directory that contains the logs of the processes.
    dir: TempDir,
}

impl Case {
    fn log(&self) -> PathBuf {
        self.dir.path().join("executions")
    }

    fn acks(&self) -> PathBuf {
        self.dir.path().join("acks")
    }

    /// Runs the agents in a separate process. Returns `None` if the process was killed.
    fn run(&self, plan: CrashPlan) -> Option<AgentReport> {
        let output = Command::new(env!("CARGO_BIN_EXE_crash-worker"))
            .args(["--saver", &self.location.to_arg()])
            .args(["--thread", &self.thread])
            .args(["--agents", self.job.as_str()])
            .args(["--durability", durability_arg(self.durability)])
            .arg("--effects")
            .arg(self.log())
            .arg("--acks")
            .arg(self.acks())
            .args(["--plan", &plan.to_string()])
            .args(["--wait", "180"])
            .output()
            .unwrap();
        if output.status.signal() == Some(SIGKILL) {
            return None;
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}, {plan}: {}: {stderr}", self.thread, output.status);
        Some(serde_json::from_slice(&output.stdout).unwrap())
    }

    /// Returns how often each call was executed.
    fn executions(&self) -> BTreeMap<String, usize> {
        logs::effects(&self.log()).unwrap()
    }

    /// Checks that all executions of a call had the same idempotency key, and that no other call had it.
    fn check_keys(&self) {
        let lines = logs::effects(&agent_job::key_log(&self.log())).unwrap();
        let pairs = lines.keys().map(|it| it.split_once(' ').unwrap());
        let (ids, keys): (Vec<&str>, BTreeSet<&str>) = pairs.unzip();
        let mut calls = self.job.calls();
        calls.sort_unstable();
        assert_eq!(ids, calls, "one key per call: {lines:?}");
        assert_eq!(keys.len(), ids.len(), "no key of two calls: {lines:?}");
    }

    /// Checks that all acknowledged writes are stored, and returns the ids of the calls whose results are stored.
    fn stored_results(&self) -> BTreeSet<String> {
        block_on(async {
            let saver = self.location.open().await.unwrap();
            let stored = StoredThread::of(&*saver, &self.thread).await.unwrap();
            stored.check_acks(&logs::acks(&self.acks()).unwrap()).unwrap();
            agent_job::stored_results(&*saver, &self.thread).await.unwrap()
        })
    }

    /// Kills one process per plan, lets the next one finish, and checks the results. Returns the number of calls that
    /// were executed more than once.
    fn check(&self, plans: &[CrashPlan]) -> usize {
        let context = format!("{:?}, {:?}, {plans:?}", self.job, self.durability);
        let calls = self.job.calls();
        let mut stored = BTreeMap::new();
        for plan in plans {
            if self.run(*plan).is_some() {
                break;
            }
            let (executions, results) = (self.executions(), self.stored_results());
            let lost = stored.keys().find(|it: &&String| !results.contains(*it));
            assert_eq!(lost, None, "result is no longer stored: {context}");
            for id in results.into_iter().filter(|it| calls.contains(&it.as_str())) {
                let n = executions[&id];
                assert_eq!(*stored.entry(id).or_insert(n), n, "computed again: {context}");
            }
        }
        let report = self.run(CrashPlan::NoCrash).unwrap();
        assert_eq!(report.answer, "done", "{context}");
        assert_eq!(report.authors, self.job.authors(), "{context}");
        let ids: Vec<_> = report.results.iter().map(|it| it.0.as_str()).collect();
        let expected = self.job.conversation_calls();
        assert_eq!(ids, expected, "each call has one result, in order: {context}");
        let executions = self.executions();
        for (id, result) in &report.results {
            // A result is lost only together with the process that computed it.
            let n = executions[id];
            assert_eq!(*result, n.to_string(), "result of the last execution: {context}");
        }
        for id in calls {
            let n = executions[id];
            assert_eq!(*stored.get(id).unwrap_or(&n), n, "{id} was computed again: {context}");
            assert!(n <= 1 + plans.len(), "{id} was executed {n} times: {context}");
        }
        // With asynchronous writes, the start of the run can be lost. The repeated start then has different idempotency
        // keys.
        if self.durability == Durability::Sync {
            self.check_keys();
        }
        executions.values().filter(|it| **it > 1).count()
    }
}

/// Kills processes that run a job. `location` returns the store of a new thread, given its directory.
///
/// Ordinary runs kill at each `step`-th write, alternately before and after it. With step 0 and in nightly runs, they
/// kill before and after each write. Nightly runs also test asynchronous writes, and kill the process that resumes.
fn check(job: AgentJob, step: usize, location: impl Fn(&TempDir) -> StoreLocation) {
    let every = step == 0 || is_nightly();
    let modes = [Durability::Sync, Durability::Async];
    for durability in &modes[..if is_nightly() { 2 } else { 1 }] {
        let case = |name: &str| {
            let dir = tempfile::tempdir().unwrap();
            let thread = format!("{} {} {name}", job.as_str(), durability_arg(*durability));
            Case { job, durability: *durability, location: location(&dir), thread, dir }
        };
        let uninterrupted = case("uninterrupted");
        let n_writes = uninterrupted.run(CrashPlan::NoCrash).unwrap().n_writes;
        let executions = uninterrupted.executions();
        assert_eq!(executions.len(), job.calls().len());
        assert!(executions.values().all(|it| *it == 1), "{executions:?}");
        let mut repeated = 0;
        for plan in kill_points(n_writes, if every { 0 } else { step }) {
            repeated += case(&plan.to_string()).check(&[plan]);
            if is_nightly() {
                let again = [plan, CrashPlan::After(3), CrashPlan::Before(6)];
                case(&format!("{plan} and again")).check(&again);
            }
        }
        assert!(repeated > 0 || !every, "no process was killed between an execution and its write");
    }
}

/// Returns the write points at which processes are killed; see [`check`].
fn kill_points(n_writes: usize, step: usize) -> Vec<CrashPlan> {
    if step == 0 {
        let both = |it| [CrashPlan::Before(it), CrashPlan::After(it)];
        return (1..=n_writes).flat_map(both).collect();
    }
    let plan = |(index, nth): (usize, usize)| match index % 2 {
        0 => CrashPlan::Before(nth),
        _ => CrashPlan::After(nth),
    };
    (1..=n_writes).step_by(step).enumerate().map(plan).collect()
}

fn check_on_sqlite(job: AgentJob, step: usize) {
    check(job, step, |dir| StoreLocation::Sqlite(dir.path().join("threads.db")));
}

#[test]
fn killed_agent_neither_loses_nor_repeats_stored_results() {
    check_on_sqlite(AgentJob::Single, 0);
}

#[test]
fn killed_agent_with_reviews_neither_loses_nor_repeats_stored_results() {
    check_on_sqlite(AgentJob::Reviewed, 1);
}

#[test]
fn killed_swarm_neither_loses_nor_repeats_stored_results() {
    check_on_sqlite(AgentJob::Swarm, 2);
}

#[test]
fn killed_supervisor_neither_loses_nor_repeats_stored_results() {
    check_on_sqlite(AgentJob::Supervisor, 2);
}

#[test]
fn killed_agent_with_an_agent_as_a_tool_neither_loses_nor_repeats_stored_results() {
    check_on_sqlite(AgentJob::Delegated, 2);
}

/// Ordinary runs kill at few writes, because the server notices the death of a process only after a while.
#[test]
fn killed_agents_neither_lose_nor_repeat_stored_results_on_postgres() {
    let Some(server) = postgres::shared() else { return };
    // On a busy machine, the server may need longer than usual to accept a connection.
    let url = format!("{}?connect_timeout=60", server.fresh_database());
    for job in AgentJob::ALL {
        check(job, 7, |_| StoreLocation::Postgres(url.clone()));
    }
}
