//! Kills a process that starts a run with an id, at every write. Two other processes then repeat the start at the same
//! time. The input must be applied once.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

use std::{
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use graph_core::Durability;
use graph_tests::{
    crash::{
        killing_hook::CrashPlan,
        location::StoreLocation,
        repeated_start::{Orders, StartReport},
        worker::durability_arg,
    },
    postgres,
};
use test_support::is_nightly;

const SIGKILL: i32 = 9;

#[test]
fn repeated_start_after_a_crash_applies_the_input_once_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    let location = StoreLocation::Sqlite(dir.path().join("threads.db"));
    let case = Case { location, acks: dir.path().join("acks") };
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        case.check(durability, 1);
    }
}

/// Ordinary runs kill at every fourth write, because the server notices the death of a process only after a while.
#[test]
fn repeated_start_after_a_crash_applies_the_input_once_on_postgres() {
    let Some(server) = postgres::shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let location = StoreLocation::Postgres(server.fresh_database());
    let case = Case { location, acks: dir.path().join("acks") };
    case.check(Durability::Sync, if is_nightly() { 1 } else { 4 });
}

struct Case {
    location: StoreLocation,
    acks: PathBuf,
}

impl Case {
    /// Kills a process at each `step`-th write of a run, on a new thread each time.
    fn check(&self, durability: Durability, step: usize) {
        let name = durability_arg(durability);
        let undisturbed = finish(self.spawn(name, durability, CrashPlan::NoCrash)).unwrap();
        assert_eq!(undisturbed.orders, Orders::complete(1));
        for nth in (1..=undisturbed.n_writes).step_by(step) {
            for plan in [CrashPlan::Before(nth), CrashPlan::After(nth)] {
                let thread = format!("{name} {plan}");
                let killed = finish(self.spawn(&thread, durability, plan));
                assert_eq!(killed, None, "{thread}: the process must be killed");
                let repeated =
                    [(); 2].map(|()| self.spawn(&thread, durability, CrashPlan::NoCrash));
                for orders in repeated.map(|it| finish(it).unwrap().orders) {
                    assert_eq!(orders, Orders::complete(1), "{thread}");
                }
            }
        }
    }

    /// Starts a process that starts the run `order` on the thread.
    fn spawn(&self, thread: &str, durability: Durability, plan: CrashPlan) -> Child {
        Command::new(env!("CARGO_BIN_EXE_crash-worker"))
            .args(["--saver", &self.location.to_arg()])
            .args(["--thread", thread])
            .args(["--start", "order"])
            .args(["--durability", durability_arg(durability)])
            .arg("--acks")
            .arg(&self.acks)
            .args(["--plan", &plan.to_string()])
            .args(["--wait", "180"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

/// Waits for a process and returns its report, or `None` if it was killed.
fn finish(process: Child) -> Option<StartReport> {
    let output = process.wait_with_output().unwrap();
    if output.status.signal() == Some(SIGKILL) {
        return None;
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", output.status);
    Some(serde_json::from_slice(&output.stdout).unwrap())
}
