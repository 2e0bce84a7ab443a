//! Tests that the same programs have the same results in all back ends that work on this machine.

use std::{env, path::PathBuf, process::Command};

use reflexion_graph::{
    Job, Limits,
    execution::Status,
    executor::{BACKENDS, Executor, Options},
};
use sandbox_vm::report::IsolationLevel;

use crate::{MAX_TIMEOUT, PROGRAM, skipped};

/// Tests all isolating back ends except the jail, which all other tests use.
#[tokio::test]
async fn working_back_ends_run_programs_and_enforce_limits() {
    for name in BACKENDS.iter().filter(|it| !["jail", "in-process"].contains(it)) {
        // Guests of `microvm` and `docker` contain no shared libraries, so the agent must be statically linked.
        let agent = match *name {
            "microvm" | "docker" => static_agent(),
            _ => Some(PROGRAM.into()),
        };
        let Some(agent) = agent else {
            eprintln!(
                "skipped: no static agent for {name}; build one as described in the Dockerfile"
            );
            continue;
        };
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            backend: Some((*name).to_owned()),
            pool: 1,
            cpus: 1.0,
            agent: Some(agent),
            state: Some(dir.path().join("state")),
            ..Options::default()
        };
        let executor = match Executor::open(options).await {
            Ok(executor) => executor,
            Err(problem) => {
                skipped(name, &problem);
                continue;
            }
        };
        let job = Job::new("x").tests("assert double(4) == 8").expect("here");
        let job = Job { limits: Limits { timeout: MAX_TIMEOUT, ..Limits::default() }, ..job };
        let right = "def double(n): return 2 * n\nprint('here')";
        let execution = executor.run(right, &[], &job).await.unwrap();
        assert_eq!(execution.status, Status::Success, "{name}");
        let level = match *name {
            "microvm" => IsolationLevel::Vm,
            "gvisor" => IsolationLevel::Kernel,
            "in-process" => IsolationLevel::Off,
            _ => IsolationLevel::Process,
        };
        assert_eq!(execution.isolation, Some(level), "{name}");
        let job = Job { limits: Limits { timeout: 1.0, ..Limits::default() }, ..Job::new("x") };
        let execution = executor.run("import time; time.sleep(1000)", &[], &job).await.unwrap();
        assert_eq!(execution.status, Status::Timeout, "{name}");
        executor.close().await;
    }
}

/// Finds a statically linked build of the program in cargo's target directory.
fn static_agent() -> Option<PathBuf> {
    let test = env::current_exe().unwrap();
    let dirs = test.ancestors().map(|it| it.join("x86_64-unknown-linux-gnu/release"));
    dirs.map(|it| it.join("agent-sandbox")).find(|it| it.is_file())
}

#[test]
fn tests_of_required_back_ends_are_not_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let passes = |required: Option<&str>| {
        let mut test = Command::new(env::current_exe().unwrap());
        let name = "backends::working_back_ends_run_programs_and_enforce_limits";
        // The directory is empty, so neither `runsc` nor any other program is found.
        test.args([name, "--exact"]).env("PATH", dir.path());
        for variable in ["GRAPH_REQUIRE_GVISOR", "GRAPH_REQUIRE_MICROVM", "GRAPH_REQUIRE_DOCKER"] {
            test.env_remove(variable);
        }
        test.envs(required.map(|it| (it, "1"))).output().unwrap().status.success()
    };
    assert!(passes(None) && !passes(Some("GRAPH_REQUIRE_GVISOR")));
}

/// The `in-process` back end must be requested by name.
#[tokio::test]
async fn programs_run_without_isolation_only_on_request() {
    let unknown = Options { backend: Some("nothing".to_owned()), ..Options::default() };
    assert!(Executor::open(unknown).await.is_err());
    // This agent exits without a response, so no isolating back end works.
    let agent = Some("/bin/false".into());
    let dir = tempfile::tempdir().unwrap();
    let state = Some(dir.path().join("state"));
    assert!(Executor::open(Options { agent, state, ..Options::default() }).await.is_err());
}
