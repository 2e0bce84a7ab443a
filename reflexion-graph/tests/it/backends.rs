//! The other back ends, where they work: the same programs come to the same.

use reflexion_graph::{
    Job, Limits,
    execution::Status,
    workshop::{BACKENDS, Options, Workshop},
};

use crate::PROGRAM;

/// Those that isolate; that the jail works is what all other tests rely on.
#[tokio::test]
async fn every_one_that_works_here_runs_programs_and_holds_their_limits() {
    for name in BACKENDS.iter().filter(|it| !["jail", "in-process"].contains(it)) {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            backend: Some((*name).to_owned()),
            pool: 1,
            cpus: 1.0,
            agent: Some(PROGRAM.into()),
            state: Some(folder.path().join("state")),
            ..Options::default()
        };
        let workshop = match Workshop::open(options).await {
            Ok(workshop) => workshop,
            Err(problem) => {
                eprintln!("skipped, {name} does not work here: {problem}");
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
