//! The loop from the outside: in real sandboxes, as a program, behind HTTP, killed and gone on with.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may panic")]

mod backends;
mod cli;
mod crash;
mod escapes;
mod limits;
mod packages;
mod problems;
mod prompts;
mod serve;
mod sessions;

use std::{fmt::Display, os::unix::fs::PermissionsExt, sync::Arc};

use graph_core::MemorySaver;
use llm::Llm;
use reflexion_graph::{
    Job, Session,
    execution::Execution,
    graph::{self, Deps},
    workshop::{Options, Workshop},
};
use tempfile::TempDir;

/// The program, which is also the guests' agent.
const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-sandbox");

/// A workshop with its own folder for what would outlive a crash.
async fn workshop(options: Options) -> (Workshop, TempDir) {
    let folder = open_folder();
    let options = Options {
        agent: Some(PROGRAM.into()),
        cache: Some(folder.path().join("packages")),
        state: Some(folder.path().join("state")),
        ..options
    };
    (Workshop::open(options).await.unwrap(), folder)
}

/// Says that a back end is not tested here. Where it is required that is a failure.
fn skipped(backend: &str, problem: &dyn Display) {
    let required = format!("GRAPH_REQUIRE_{}", backend.to_uppercase());
    assert!(std::env::var_os(&required).is_none(), "{required} is set: {backend}: {problem}");
    eprintln!("skipped, {backend} does not work here: {problem}");
}

/// A folder that every user can reach: guests of root are nobody.
fn open_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// A small workshop.
async fn small() -> (Workshop, TempDir) {
    workshop(Options { pool: 1, ..Options::default() }).await
}

/// Runs a program as a job's.
async fn run(code: &str, job: &Job) -> Execution {
    let (workshop, folder) = small().await;
    let execution = workshop.run(code, &[], job).await.unwrap();
    workshop.close().await;
    nothing_left(&workshop, &folder).await;
    execution
}

/// Sees that a workshop which was closed leaves no sandbox, and no folder of one.
async fn nothing_left(workshop: &Workshop, folder: &TempDir) {
    let state = folder.path().join("state");
    let left = || std::fs::read_dir(&state).map_or(0, |it| it.count());
    let gone = async {
        while !workshop.sandboxes().list().is_empty() || left() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(20), gone).await;
    assert!(waited.is_ok(), "{:?} and {} folders are left", workshop.sandboxes().list(), left());
}

/// A session with a model, to its end.
async fn session(job: Job, llm: Llm) -> Session {
    let (workshop, _folder) = small().await;
    let deps = Deps::new(llm, workshop.clone());
    let thread = graph::graph(Arc::new(MemorySaver::new())).unwrap().thread("session", deps);
    let session = Session { job, ..Session::default() };
    let ended = thread.run(session).await.unwrap();
    workshop.close().await;
    ended.into_state()
}
