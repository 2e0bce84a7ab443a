//! Starts worker processes and waits for them.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use graph_core::Durability;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::{
    job::Job,
    killing_hook::CrashPlan,
    location::StoreLocation,
    logs::{self, Ack},
    stored_thread::StoredThread,
};

/// Time after which a worker is considered hung.
const WORKER_TIMEOUT: Duration = Duration::from_secs(600);
const SIGKILL: i32 = 9;

/// The report that a worker prints when it finishes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerReport {
    pub job: Job,
    /// Number of write points that the worker has passed.
    pub n_writes: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub enum WorkerOutcome {
    Finished(WorkerReport),
    Killed,
    /// The worker failed. The text contains its exit status and error output.
    Failed(String),
    /// The worker timed out and was killed.
    Hung,
}

/// Starts workers for one thread in one store.
#[derive(Debug)]
pub struct WorkerLauncher {
    program: PathBuf,
    location: StoreLocation,
    thread: String,
    durability: Durability,
    /// Directory that contains the logs of the workers.
    dir: TempDir,
}

impl WorkerLauncher {
    /// Creates a launcher that runs `crash-worker` on a thread in a new SQLite file.
    pub fn on_file(program: impl Into<PathBuf>, durability: Durability) -> io::Result<Self> {
        let dir = tempfile::tempdir()?;
        // The path must be canonical, because the failing-disk library compares the canonical paths of open files.
        let location = StoreLocation::Sqlite(dir.path().canonicalize()?.join("threads.db"));
        Ok(Self { program: program.into(), location, thread: "job".to_owned(), durability, dir })
    }

    /// Creates a launcher that runs `crash-worker` on a thread in a PostgreSQL database.
    pub fn on_server(
        program: impl Into<PathBuf>,
        url: &str,
        thread: impl Into<String>,
        durability: Durability,
    ) -> io::Result<Self> {
        let (location, thread) = (StoreLocation::Postgres(url.to_owned()), thread.into());
        Ok(Self {
            program: program.into(),
            location,
            thread,
            durability,
            dir: tempfile::tempdir()?,
        })
    }

    pub fn location(&self) -> &StoreLocation {
        &self.location
    }

    /// Returns the command that starts a worker.
    pub fn command(&self, plan: CrashPlan) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["--saver", &self.location.to_arg()])
            .args(["--thread", &self.thread])
            .args(["--durability", durability_arg(self.durability)])
            .arg("--effects")
            .arg(self.effect_log())
            .arg("--acks")
            .arg(self.acks_file())
            .args(["--plan", &plan.to_string()])
            .args(["--wait", self.wait()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Returns how many seconds a worker waits for a leased thread. SQLite releases the lease of a dead worker at once,
    /// but a PostgreSQL server must first detect that the connection is lost.
    fn wait(&self) -> &'static str {
        match self.location {
            StoreLocation::Sqlite(_) => "0",
            StoreLocation::Postgres(_) => "180",
        }
    }

    /// Runs a worker until it exits or is killed.
    pub fn run(&self, plan: CrashPlan) -> io::Result<WorkerOutcome> {
        wait_for_exit(self.command(plan).spawn()?)
    }

    /// Runs a worker and kills it after `lifetime`, unless it has exited before.
    pub fn run_for(&self, lifetime: Duration) -> io::Result<WorkerOutcome> {
        let mut child = self.command(CrashPlan::NoCrash).spawn()?;
        let started = Instant::now();
        while started.elapsed() < lifetime && child.try_wait()?.is_none() {
            thread::sleep(Duration::from_millis(1).min(lifetime.saturating_sub(started.elapsed())));
        }
        child.kill()?;
        wait_for_exit(child)
    }

    /// Reads the thread from the store.
    pub async fn stored(&self) -> Result<StoredThread, Box<dyn std::error::Error>> {
        let stored = match &self.location {
            // Reads a copy, because opening the file itself would recover it. Recovery is left to the next worker.
            StoreLocation::Sqlite(path) => {
                let dir = tempfile::tempdir()?;
                let copy = StoreLocation::Sqlite(copy_database(path, dir.path())?);
                StoredThread::of(&*copy.open().await?, &self.thread).await?
            }
            StoreLocation::Postgres(_) => {
                StoredThread::of(&*self.location.open().await?, &self.thread).await?
            }
        };
        Ok(stored)
    }

    /// Reads the writes that the workers logged as acknowledged.
    pub fn acks(&self) -> io::Result<Vec<Ack>> {
        logs::acks(&self.acks_file())
    }

    /// Reads how often each effect was executed.
    pub fn effects(&self) -> io::Result<BTreeMap<String, usize>> {
        logs::effects(&self.effect_log())
    }

    fn effect_log(&self) -> PathBuf {
        self.dir.path().join("effects")
    }

    fn acks_file(&self) -> PathBuf {
        self.dir.path().join("acks")
    }
}

/// Copies a database and its write-ahead log without opening them. Returns the path of the copy.
pub fn copy_database(from: &Path, dir: &Path) -> io::Result<PathBuf> {
    let to = dir.join("copy.db");
    for suffix in ["", "-wal"] {
        let file = with_suffix(from, suffix);
        if file.exists() {
            fs::copy(file, with_suffix(&to, suffix))?;
        }
    }
    Ok(to)
}

pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Returns the command-line name of a durability.
pub fn durability_arg(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "sync",
        Durability::Async => "async",
        Durability::Exit => "exit",
    }
}

/// Waits until a worker exits.
pub fn wait_for_exit(mut child: Child) -> io::Result<WorkerOutcome> {
    let started = Instant::now();
    // The output is smaller than the pipe's buffer, so it can be read after the worker has exited.
    while child.try_wait()?.is_none() {
        if started.elapsed() > WORKER_TIMEOUT {
            child.kill()?;
            child.wait()?;
            return Ok(WorkerOutcome::Hung);
        }
        thread::sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output()?;
    if output.status.signal() == Some(SIGKILL) {
        return Ok(WorkerOutcome::Killed);
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() {
        true => Ok(WorkerOutcome::Finished(serde_json::from_slice(&output.stdout)?)),
        false => Ok(WorkerOutcome::Failed(format!("{}: {words}", output.status))),
    }
}
