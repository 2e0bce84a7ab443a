//! Starting workers, and what becomes of them.

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
    dying::Plan,
    job::Job,
    saver::Home,
    sight::Sight,
    trail::{self, Ack},
};

/// How long a worker may take before it is held to hang.
const PATIENCE: Duration = Duration::from_secs(60);
/// The number of the signal that cannot be caught.
const SIGKILL: i32 = 9;

/// What a worker says at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What the job came to.
    pub job: Job,
    /// How many write points the worker passed.
    pub n_writes: usize,
}

/// How a worker ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// It finished the job.
    Finished(Report),
    /// It was killed.
    Killed,
    /// It gave up, with these words.
    Failed(String),
    /// It neither finished nor failed, and was killed for that.
    Hung,
}

/// Starts workers on one thread of one store.
#[derive(Debug)]
pub struct Post {
    program: PathBuf,
    home: Home,
    thread: String,
    durability: Durability,
    /// Holds the files in which workers leave their trail.
    folder: TempDir,
}

impl Post {
    /// A post for this program, which is `crash-worker`, on a thread of a SQLite file of its own.
    pub fn on_file(program: impl Into<PathBuf>, durability: Durability) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        // By its real name, as the system gives it for an open file.
        let home = Home::Sqlite(folder.path().canonicalize()?.join("threads.db"));
        Ok(Self { program: program.into(), home, thread: "job".to_owned(), durability, folder })
    }

    /// A post for this program, which is `crash-worker`, on a thread of a PostgreSQL database.
    pub fn on_server(
        program: impl Into<PathBuf>,
        url: &str,
        thread: impl Into<String>,
        durability: Durability,
    ) -> io::Result<Self> {
        let (home, thread) = (Home::Postgres(url.to_owned()), thread.into());
        Ok(Self { program: program.into(), home, thread, durability, folder: tempfile::tempdir()? })
    }

    /// Where the thread is kept.
    #[must_use]
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// The command that starts a worker.
    #[must_use]
    pub fn command(&self, plan: Plan) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["--saver", &self.home.word()])
            .args(["--thread", &self.thread])
            .args(["--durability", word_of(self.durability)])
            .arg("--world")
            .arg(self.world())
            .arg("--acks")
            .arg(self.acks_file())
            .args(["--plan", &plan.to_string()])
            .args(["--wait", self.wait()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// How long a worker waits for a thread that is taken: a dead worker's file is free at once, while a server has
    /// to notice its death.
    fn wait(&self) -> &'static str {
        match self.home {
            Home::Sqlite(_) => "0",
            Home::Postgres(_) => "30",
        }
    }

    /// Runs a worker to its end, which may be its death.
    pub fn run(&self, plan: Plan) -> io::Result<Ended> {
        end_of(self.command(plan).spawn()?)
    }

    /// Runs a worker and kills it after a while, unless it is done before.
    pub fn run_for(&self, life: Duration) -> io::Result<Ended> {
        let mut child = self.command(Plan::Live).spawn()?;
        let born = Instant::now();
        while born.elapsed() < life && child.try_wait()?.is_none() {
            thread::sleep(Duration::from_millis(1).min(life.saturating_sub(born.elapsed())));
        }
        child.kill()?;
        end_of(child)
    }

    /// Reads what is stored of the thread.
    pub async fn sight(&self) -> Result<Sight, Box<dyn std::error::Error>> {
        let looked = match &self.home {
            // A copy is looked at: to open the file itself would mend it, and the next worker is to do that.
            Home::Sqlite(path) => {
                let folder = tempfile::tempdir()?;
                let copy = Home::Sqlite(copy_database(path, folder.path())?);
                Sight::of(&*copy.open().await?, &self.thread).await?
            }
            Home::Postgres(_) => Sight::of(&*self.home.open().await?, &self.thread).await?,
        };
        Ok(looked)
    }

    /// What was answered so far.
    pub fn acks(&self) -> io::Result<Vec<Ack>> {
        trail::acks(&self.acks_file())
    }

    /// How often each effect took place so far.
    pub fn effects(&self) -> io::Result<BTreeMap<String, usize>> {
        trail::effects(&self.world())
    }

    fn world(&self) -> PathBuf {
        self.folder.path().join("world")
    }

    fn acks_file(&self) -> PathBuf {
        self.folder.path().join("acks")
    }
}

/// Copies a database and its log, as they lie there, and gives the copy's path.
pub fn copy_database(from: &Path, folder: &Path) -> io::Result<PathBuf> {
    let to = folder.join("copy.db");
    for suffix in ["", "-wal"] {
        let file = with_suffix(from, suffix);
        if file.exists() {
            fs::copy(file, with_suffix(&to, suffix))?;
        }
    }
    Ok(to)
}

/// The path with more letters at its end.
#[must_use]
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The word for a durability on the command line.
#[must_use]
pub fn word_of(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "sync",
        Durability::Async => "async",
        Durability::Exit => "exit",
    }
}

/// Waits for a worker's end.
pub fn end_of(mut child: Child) -> io::Result<Ended> {
    let born = Instant::now();
    // Less than a pipe holds is written, so it need not be read meanwhile.
    while child.try_wait()?.is_none() {
        if born.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Ok(Ended::Hung);
        }
        thread::sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output()?;
    if output.status.signal() == Some(SIGKILL) {
        return Ok(Ended::Killed);
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() {
        true => Ok(Ended::Finished(serde_json::from_slice(&output.stdout)?)),
        false => Ok(Ended::Failed(format!("{}: {words}", output.status))),
    }
}
