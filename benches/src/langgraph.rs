//! Runs LangGraph in a child process, which executes workloads on request.
//!
//! The process runs during the whole benchmark, so that its rounds alternate with those of the engine and Python's
//! imports are executed only once.

use std::{
    env,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde::{Serialize, de::DeserializeOwned};

/// Environment variable that specifies the Python interpreter.
pub const PYTHON: &str = "GRAPH_BENCH_PYTHON";

/// Value of SQLite's `synchronous` setting that syncs every commit. Our saver has the same durability.
pub(crate) const FULL_SYNC: u8 = 2;

#[derive(Debug)]
pub struct LangGraph {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    savers: Savers,
}

/// Versions and settings of LangGraph's savers.
#[derive(Clone, Debug, serde::Deserialize)]
pub(crate) struct Savers {
    pub(crate) sqlite_saver: String,
    pub(crate) postgres_saver: String,
    pub(crate) sqlite: String,
    pub(crate) synchronous: u8,
}

impl Savers {
    /// Returns whether SQLite syncs less often with LangGraph's default settings than with our saver.
    pub(crate) fn syncs_less(&self) -> bool {
        self.synchronous < FULL_SYNC
    }
}

impl LangGraph {
    pub fn start(python: &Path) -> io::Result<Self> {
        let mut command = Command::new(python);
        command.arg("-u").arg(dir().join("sections.py"));
        // Tracing would distort the measurements and contact a server.
        command.env("LANGSMITH_TRACING", "false").env("LANGCHAIN_TRACING_V2", "false");
        // The directory of the script is part of the repository, so Python must not write bytecode files to it.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let requests = child.stdin.take().expect("standard input is a pipe");
        let mut answers = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        let savers = read(&mut answers)?;
        Ok(Self { child, requests, answers, savers })
    }

    /// Returns the versions and settings of LangGraph's savers.
    pub(crate) fn savers(&self) -> &Savers {
        &self.savers
    }

    /// Sends a request and waits for the answer.
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
        // Kill the process instead of waiting for it, because it may be in the middle of a long run and has no state to
        // save.
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

/// Finds a Python interpreter that has LangGraph: the one that [`PYTHON`] specifies, or else the one that `cargo xtask
/// bench` installed.
pub fn find() -> Option<PathBuf> {
    let python = match env::var_os(PYTHON) {
        Some(python) => PathBuf::from(python),
        None => {
            env::current_exe().ok()?.ancestors().nth(2)?.join("bench-peers/langgraph/bin/python")
        }
    };
    has(&python, "import langgraph.graph").then_some(python)
}

fn has(python: &Path, imports: &str) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", imports]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|it| it.success())
}

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/langgraph")
}
