//! Kills a process that runs an agent at every write, resumes the agent in another process, and checks that no tool
//! result is lost and that no stored result is computed again.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::Command,
};

use graph_agents::message::messages_from_json;
use graph_core::Durability;
use graph_tests::crash::{
    agent_job::{self, AgentReport, ROUNDS},
    is_nightly,
    killing_hook::CrashPlan,
    location::StoreLocation,
    logs,
    worker::durability_arg,
};
use tempfile::TempDir;

const SIGKILL: i32 = 9;

/// One thread of the agent, and the processes that run it.
struct Case {
    dir: TempDir,
    durability: Durability,
}

impl Case {
    fn new(durability: Durability) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), durability }
    }

    fn location(&self) -> StoreLocation {
        StoreLocation::Sqlite(self.dir.path().join("threads.db"))
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("executions")
    }

    /// Runs the agent in a separate process. Returns `None` if the process was killed.
    fn run(&self, plan: CrashPlan) -> Option<AgentReport> {
        let output = Command::new(env!("CARGO_BIN_EXE_crash-worker"))
            .args(["--saver", &self.location().to_arg()])
            .arg("--agent")
            .arg(self.log())
            .args(["--durability", durability_arg(self.durability)])
            .arg("--acks")
            .arg(self.dir.path().join("acks"))
            .args(["--plan", &plan.to_string()])
            .output()
            .unwrap();
        if output.status.signal() == Some(SIGKILL) {
            return None;
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{plan}: {}: {stderr}", output.status);
        Some(serde_json::from_slice(&output.stdout).unwrap())
    }

    /// Returns how often each call was executed.
    fn executions(&self) -> BTreeMap<String, usize> {
        logs::effects(&self.log()).unwrap()
    }

    /// Returns the ids of the calls whose results are stored.
    #[tokio::main(flavor = "current_thread")]
    async fn stored_results(&self) -> BTreeSet<String> {
        let saver = self.location().open().await.unwrap();
        let agent = agent_job::agent(saver, &self.log()).unwrap();
        let thread = agent_job::thread(&agent, self.durability);
        let Some(state) = thread.state().await.unwrap() else { return BTreeSet::new() };
        let writes = state.tasks.into_iter().filter_map(|it| it.result).flatten();
        let lists = state.values.get("messages").cloned().into_iter();
        let lists = lists.chain(writes.filter(|it| it.field == "messages").map(|it| it.value));
        let messages = lists.flat_map(|it| messages_from_json(&it).unwrap());
        messages.filter_map(|it| it.as_tool().map(|it| it.tool_call_id.clone())).collect()
    }

    /// Kills one process per plan, lets the next one finish, and checks the results. Returns the number of calls that
    /// were executed more than once.
    fn check(&self, plans: &[CrashPlan]) -> usize {
        let context = format!("{:?}, {plans:?}", self.durability);
        let mut stored = BTreeMap::new();
        for plan in plans {
            if self.run(*plan).is_some() {
                break;
            }
            let executions = self.executions();
            for id in self.stored_results() {
                let n = executions[&id];
                assert_eq!(*stored.entry(id).or_insert(n), n, "computed again: {context}");
            }
        }
        let report = self.run(CrashPlan::NoCrash).unwrap();
        assert_eq!(report.answer, "done", "{context}");
        let ids: Vec<_> = report.results.iter().map(|it| it.0.as_str()).collect();
        assert_eq!(ids, ROUNDS.concat(), "each call has one result, in order: {context}");
        let executions = self.executions();
        for (id, result) in &report.results {
            let n = executions[id];
            // A result is lost only together with the process that computed it.
            assert_eq!(*result, n.to_string(), "result of the last execution: {context}");
            assert_eq!(*stored.get(id).unwrap_or(&n), n, "{id} was computed again: {context}");
            assert!(n <= 1 + plans.len(), "{id} was executed {n} times: {context}");
        }
        executions.values().filter(|it| **it > 1).count()
    }
}

/// Kills at every write point. Nightly runs also test asynchronous writes, and kill the process that resumes.
#[test]
fn killed_agent_neither_loses_nor_repeats_stored_results() {
    let modes = [Durability::Sync, Durability::Async];
    for durability in &modes[..if is_nightly() { 2 } else { 1 }] {
        let uninterrupted = Case::new(*durability);
        let n_writes = uninterrupted.run(CrashPlan::NoCrash).unwrap().n_writes;
        assert!(uninterrupted.executions().values().all(|it| *it == 1));
        let plans = (1..=n_writes).flat_map(|it| [CrashPlan::Before(it), CrashPlan::After(it)]);
        let mut repeated = 0;
        for plan in plans {
            repeated += Case::new(*durability).check(&[plan]);
            if is_nightly() {
                Case::new(*durability).check(&[plan, CrashPlan::After(3), CrashPlan::Before(6)]);
            }
        }
        assert!(repeated > 0, "no kill fell between an execution and its write");
    }
}
