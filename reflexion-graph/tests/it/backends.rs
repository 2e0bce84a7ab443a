//! The other back ends, where they work: the same programs come to the same.

use std::{env, path::PathBuf, process::Command};

use reflexion_graph::{
    Job, Limits,
    execution::Status,
    workshop::{BACKENDS, Options, Workshop},
};

use crate::{PROGRAM, skipped};

/// Those that isolate; that the jail works is what all other tests rely on.
#[tokio::test]
async fn every_one_that_works_here_runs_programs_and_holds_their_limits() {
    for name in BACKENDS.iter().filter(|it| !["jail", "in-process"].contains(it)) {
        // These bring no libraries into their guests, so that their agent has to be linked without.
        let agent = match *name {
            "microvm" | "docker" => linked_without_libraries(),
            _ => Some(PROGRAM.into()),
        };
        let Some(agent) = agent else {
            eprintln!("skipped, there is no agent for {name}: build one as the Dockerfile says");
            continue;
        };
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            backend: Some((*name).to_owned()),
            pool: 1,
            cpus: 1.0,
            agent: Some(agent),
            state: Some(folder.path().join("state")),
            ..Options::default()
        };
        let workshop = match Workshop::open(options).await {
            Ok(workshop) => workshop,
            Err(problem) => {
                skipped(name, &problem);
                continue;
            }
        };
        let job = Job::new("x").tests("assert double(4) == 8").expect("here");
        let job = Job { limits: Limits { timeout: 20.0, ..Limits::default() }, ..job };
        let right = "def double(n): return 2 * n\nprint('here')";
        let execution = workshop.run(right, &[], &job).await.unwrap();
        assert_eq!((execution.status, execution.isolated), (Status::Success, true), "{name}");
        let job = Job { limits: Limits { timeout: 1.0, ..Limits::default() }, ..Job::new("x") };
        let execution = workshop.run("import time; time.sleep(60)", &[], &job).await.unwrap();
        assert_eq!(execution.status, Status::Timeout, "{name}");
        workshop.close().await;
    }
}

/// The program as it is linked for such guests, where somebody did, in the folder that cargo builds into.
fn linked_without_libraries() -> Option<PathBuf> {
    let test = env::current_exe().unwrap();
    let folders = test.ancestors().map(|it| it.join("x86_64-unknown-linux-gnu/release"));
    folders.map(|it| it.join("agent-sandbox")).find(|it| it.is_file())
}

#[test]
fn where_a_back_end_is_required_its_tests_are_not_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let passes = |required: Option<&str>| {
        let mut test = Command::new(env::current_exe().unwrap());
        let name = "backends::every_one_that_works_here_runs_programs_and_holds_their_limits";
        // There is no `runsc`, nor anything else.
        test.args([name, "--exact"]).env("PATH", folder.path());
        for variable in ["GRAPH_REQUIRE_GVISOR", "GRAPH_REQUIRE_MICROVM", "GRAPH_REQUIRE_DOCKER"] {
            test.env_remove(variable);
        }
        test.envs(required.map(|it| (it, "1"))).output().unwrap().status.success()
    };
    assert!(passes(None) && !passes(Some("GRAPH_REQUIRE_GVISOR")));
}

/// What has no walls is used by name only.
#[tokio::test]
async fn programs_run_without_isolation_only_if_that_is_asked_for() {
    let unknown = Options { backend: Some("nothing".to_owned()), ..Options::default() };
    assert!(Workshop::open(unknown).await.is_err());
    // No agent answers, so nothing that isolates works.
    let agent = Some("/bin/false".into());
    let folder = tempfile::tempdir().unwrap();
    let state = Some(folder.path().join("state"));
    assert!(Workshop::open(Options { agent, state, ..Options::default() }).await.is_err());
}
