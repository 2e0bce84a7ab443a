//! End-to-end tests: real sandboxes, the command-line program, the HTTP server, and resuming after a crash.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may panic")]

mod backends;
mod cli;
mod crash;
mod escapes;
mod limits;
mod packages;
mod page;
mod problems;
mod prompts;
mod serve;
mod sessions;
mod verdicts;

use std::{
    fmt::Display,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
    sync::Arc,
};

use graph_core::MemorySaver;
use llm::Llm;
use reflexion_graph::{
    Job, Limits, Session,
    execution::Execution,
    executor::{Executor, Options},
    graph::{self, Deps},
};
use tempfile::TempDir;

/// Longest timeout in seconds that a job can have, for programs that end by themselves.
const MAX_TIMEOUT: f64 = 60.0;

/// Returns a job with the longest timeout. The default timeout is so short that programs which end by themselves reach
/// it on a busy machine.
fn patient_job(task: &str) -> Job {
    Job { limits: Limits { timeout: MAX_TIMEOUT, ..Limits::default() }, ..Job::new(task) }
}

/// Path of the program, which is also the guest agent.
const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-sandbox");

/// Opens an executor with its own cache and state directories.
async fn executor(options: Options) -> (Executor, TempDir) {
    let dir = readable_dir();
    let options = Options {
        agent: Some(PROGRAM.into()),
        cache: Some(dir.path().join("packages")),
        state: Some(dir.path().join("state")),
        ..options
    };
    (Executor::open(options).await.unwrap(), dir)
}

/// Reports that a back end is not tested. Fails if the back end is required.
fn skipped(backend: &str, problem: &dyn Display) {
    let required = format!("GRAPH_REQUIRE_{}", backend.to_uppercase());
    assert!(std::env::var_os(&required).is_none(), "{required} is set: {backend}: {problem}");
    eprintln!("skipped: {backend} does not work on this machine: {problem}");
}

/// Creates a directory that every user can read, because guests started by root run as `nobody`.
fn readable_dir() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

/// Makes a command run as user `nobody`, who becomes the owner of `dir`. Returns whether that is possible. Only root
/// can start a program as another user. That user cannot create control groups, so no kernel limits the memory of
/// sandboxes.
fn run_as_nobody(command: &mut tokio::process::Command, dir: &Path) -> bool {
    const NOBODY: u32 = 65_534;
    let is_root = fs::metadata(dir).unwrap().uid() == 0;
    if is_root {
        chown(dir, Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY).env("TMPDIR", dir);
        command.env_remove("XDG_RUNTIME_DIR").env_remove("SANDBOX_VM_STATE");
    }
    is_root
}

/// Opens an executor with one sandbox.
async fn small_executor() -> (Executor, TempDir) {
    executor(Options { pool: 1, ..Options::default() }).await
}

/// Runs a program for a job and checks that its sandbox is deleted.
async fn run(code: &str, job: &Job) -> Execution {
    let (executor, dir) = small_executor().await;
    let execution = executor.run(code, &[], job).await.unwrap();
    executor.close().await;
    assert_cleaned_up(&executor, &dir).await;
    execution
}

/// Asserts that a closed executor leaves no sandbox and no sandbox directory.
async fn assert_cleaned_up(executor: &Executor, dir: &TempDir) {
    let state = dir.path().join("state");
    let left = || fs::read_dir(&state).map_or(0, |it| it.count());
    let cleanup = async {
        while !executor.sandboxes().list().is_empty() || left() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(300), cleanup).await;
    assert!(
        waited.is_ok(),
        "{:?} and {} directories are left",
        executor.sandboxes().list(),
        left()
    );
}

/// Runs a session with a model and returns its final state.
async fn session(job: Job, llm: Llm) -> Session {
    let (executor, _folder) = small_executor().await;
    let deps = Deps::new(llm, executor.clone());
    let thread = graph::graph(Arc::new(MemorySaver::new())).unwrap().thread("session", deps);
    // A program that ends by itself must not reach the limit on a busy machine.
    let job = Job { limits: Limits { timeout: MAX_TIMEOUT, ..job.limits }, ..job };
    let session = Session { job, ..Session::default() };
    let ended = thread.run(session).await.unwrap();
    executor.close().await;
    ended.into_state()
}
