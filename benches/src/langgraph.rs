//! LangGraph, as a child process that runs a workload when it is asked to.
//!
//! It stays for the whole bench, so that its rounds lie between ours and it pays for its imports once.

use std::{
    env, fmt,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    storage::langgraph::Savers,
    workload::{LangGraphSize, Workload},
};

/// The variable that names the Python interpreter to use.
pub const PYTHON: &str = "GRAPH_BENCH_PYTHON";

/// A running LangGraph.
#[derive(Debug)]
pub struct LangGraph {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    version: Version,
}

/// What runs on the other side.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct Version {
    langgraph: String,
    python: String,
    /// LangGraph's savers are packages of their own, which may be missing.
    savers: Option<Savers>,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LangGraph {} on Python {}", self.langgraph, self.python)
    }
}

#[derive(Serialize)]
struct Request {
    workload: &'static str,
    size: usize,
    steps: usize,
}

#[derive(serde::Deserialize)]
struct Answer {
    seconds: f64,
}

impl LangGraph {
    /// Starts LangGraph in this interpreter.
    pub fn start(python: &Path) -> io::Result<Self> {
        let mut command = Command::new(python);
        command.arg("-u").arg(dir().join("workloads.py"));
        // Tracing would be measured too, and would talk to a server.
        command.env("LANGSMITH_TRACING", "false").env("LANGCHAIN_TRACING_V2", "false");
        // This folder is part of the repository.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let requests = child.stdin.take().expect("standard input is a pipe");
        let mut answers = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        let version = read(&mut answers)?;
        Ok(Self { child, requests, answers, version })
    }

    /// What runs on the other side.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Its savers, where they are installed.
    pub fn savers(&self) -> Option<&Savers> {
        self.version.savers.as_ref()
    }

    /// Runs a workload once and gives the time it took.
    pub fn run(
        &mut self,
        workload: Workload,
        langgraph_size: LangGraphSize,
    ) -> io::Result<Duration> {
        let LangGraphSize { size, steps } = langgraph_size;
        let answer: Answer = self.request(&Request { workload: workload.name(), size, steps })?;
        Duration::try_from_secs_f64(answer.seconds).map_err(io::Error::other)
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn request<T: DeserializeOwned>(
        &mut self,
        request: &impl Serialize,
    ) -> io::Result<T> {
        let line = serde_json::to_string(request)?;
        writeln!(self.requests, "{line}")?;
        read(&mut self.answers)
    }
}

impl Drop for LangGraph {
    fn drop(&mut self) {
        // CallCount is lost with it, and it may be in the middle of a long run.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read<T: DeserializeOwned>(answers: &mut impl BufRead) -> io::Result<T> {
    let mut line = String::new();
    if answers.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&line)?)
}

/// Finds an interpreter that has LangGraph.
///
/// The one that [`PYTHON`] names, or else the one of an earlier [`install`], or else `python3`.
pub fn find() -> Option<PathBuf> {
    let candidates = match env::var_os(PYTHON) {
        Some(python) => vec![PathBuf::from(python)],
        None => venv().map(|it| python_in(&it)).into_iter().chain(["python3".into()]).collect(),
    };
    candidates.into_iter().find(|it| has(it, "import langgraph.graph"))
}

/// Whether an interpreter that has LangGraph has its savers too.
pub fn is_complete(python: &Path) -> bool {
    has(python, "import langgraph.checkpoint.sqlite, langgraph.checkpoint.postgres, psycopg_pool")
}

/// Installs LangGraph with its savers into an environment of its own in the target folder.
pub fn install() -> io::Result<PathBuf> {
    let venv = venv().ok_or_else(|| io::Error::other("the target folder is not known"))?;
    let python = python_in(&venv);
    succeed(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--requirement"]);
    succeed(pip.arg(dir().join("requirements.txt")))?;
    Ok(python)
}

fn has(python: &Path, imports: &str) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", imports]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|it| it.success())
}

/// Runs a command; its output goes to standard error, where it does not disturb the table.
fn succeed(command: &mut Command) -> io::Result<()> {
    let status = command.stdout(io::stderr()).status()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("`{command:?}` failed: {status}")))
}

/// This program lies in a profile's folder inside the target folder, whatever sets that.
fn venv() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    Some(program.ancestors().nth(2)?.join("langgraph-venv"))
}

fn python_in(venv: &Path) -> PathBuf {
    match cfg!(windows) {
        true => venv.join("Scripts").join("python.exe"),
        false => venv.join("bin").join("python"),
    }
}

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("langgraph")
}
