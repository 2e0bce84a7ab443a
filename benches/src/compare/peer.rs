//! The programs that are compared, as child processes.

use std::{
    env,
    ffi::OsString,
    io::{self, BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;

use crate::storage::written_bytes;

/// A program that executes workloads.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Name in the results.
    pub name: &'static str,
    /// Kind of the peer, which determines the goals it is compared for.
    pub kind: Kind,
    command: Vec<OsString>,
}

/// The kind of a peer. Each goal compares the engine with the peers of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Engine,
    ByHand,
    LangGraph,
    LangGraphJs,
    Rust,
}

/// The answer of a program to one request.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Reply {
    Done(Measured),
    Cannot { cannot: String },
}

/// The result and the cost of some runs.
#[derive(Clone, Debug, Deserialize)]
pub struct Measured {
    pub answer: String,
    /// Total duration of all runs.
    pub seconds: f64,
    /// CPU time of all threads.
    pub cpu: f64,
    /// Growth of the resident memory at its peak, in bytes.
    pub memory: u64,
}

/// Argument with which the benchmark program starts itself to execute the workloads on the engine.
pub const ENGINE: &str = "peer-engine";

/// Argument with which the benchmark program starts itself to execute the handwritten workloads.
pub const BY_HAND: &str = "peer-by-hand";

/// Returns all peers: the engine first, then the handwritten code, then the installed peers.
pub fn peers() -> io::Result<Vec<Peer>> {
    let program = env::current_exe()?;
    let installed = target_dir(&program)?.join("bench-peers");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
    let python = installed.join("langgraph/bin/python");
    let workloads_py = sources.join("langgraph/workloads.py");
    let workloads_mjs = installed.join("langgraph-js/workloads.mjs");
    let rust = |name: &str| installed.join("rust/release").join(name);
    let peer = |name, kind, command: &[&dyn AsRef<std::ffi::OsStr>]| Peer {
        name,
        kind,
        command: command.iter().map(|it| it.as_ref().to_owned()).collect(),
    };
    Ok(vec![
        peer("engine", Kind::Engine, &[&program, &ENGINE]),
        peer("by hand", Kind::ByHand, &[&program, &BY_HAND]),
        peer("LangGraph sync", Kind::LangGraph, &[&python, &"-u", &workloads_py, &"sync"]),
        peer("LangGraph async", Kind::LangGraph, &[&python, &"-u", &workloads_py, &"async"]),
        peer("LangGraph.js", Kind::LangGraphJs, &[&"node", &"--expose-gc", &workloads_mjs]),
        peer("juncture", Kind::Rust, &[&rust("peer-juncture")]),
        peer("adk-graph", Kind::Rust, &[&rust("peer-adk-graph")]),
        peer("graph-flow", Kind::Rust, &[&rust("peer-graph-flow")]),
        peer("cognis-graph", Kind::Rust, &[&rust("peer-cognis-graph")]),
    ])
}

fn target_dir(program: &Path) -> io::Result<PathBuf> {
    program.ancestors().nth(2).map(Path::to_owned).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// A running program of a peer.
#[derive(Debug)]
pub struct Session {
    child: Child,
    requests: ChildStdin,
    replies: Receiver<io::Result<String>>,
    /// Receives the last line of standard error when the program closes it.
    error: Receiver<String>,
}

#[derive(Deserialize)]
struct Hello {
    version: String,
}

impl Peer {
    /// Returns the paths in the command that starts the program.
    pub(super) fn files(&self) -> impl Iterator<Item = &OsString> {
        self.command.iter().filter(|it| Path::new(it).is_absolute())
    }

    /// Starts the program, which creates its databases in `scratch`. It is ready after [`Session::ready`].
    pub fn start(&self, scratch: &Path) -> io::Result<Session> {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).env("GRAPH_BENCH_DIR", scratch);
        // Tracing would distort the measurements and contact a server.
        command.env("LANGSMITH_TRACING", "false").env("LANGCHAIN_TRACING_V2", "false");
        // The script is part of the repository, so Python must not write bytecode files next to it.
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("RUST_LOG", "off");
        // A program may start others, for example a server. At the end of the session, all of them are killed.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let requests = child.stdin.take().expect("standard input is a pipe");
        let output = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        let (sender, replies) = channel();
        // Ends when the program closes its output or the session is dropped.
        thread::spawn(move || output.lines().try_for_each(|it| sender.send(it)));
        let errors = BufReader::new(child.stderr.take().expect("standard error is a pipe"));
        let (sender, error) = channel();
        thread::spawn(move || sender.send(last_line(errors)));
        Ok(Session { child, requests, replies, error })
    }
}

impl Session {
    /// Waits until the program is ready, and returns the versions of the peer and of its language.
    pub fn ready(&mut self) -> io::Result<String> {
        let hello: Hello = serde_json::from_str(&self.line(Duration::from_secs(60))?)?;
        Ok(hello.version)
    }

    /// Executes a workload. Fails if the program takes longer than the limit, which leaves the session unusable.
    pub fn run(
        &mut self,
        workload: &str,
        size: usize,
        runs: usize,
        limit: Duration,
    ) -> io::Result<Reply> {
        let sent = writeln!(self.requests, "{workload} {size} {runs}");
        match sent.and_then(|()| self.requests.flush()) {
            // The program has ended. Its status and its last message explain why.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Err(self.line(limit).err().unwrap_or(error));
            }
            sent => sent?,
        }
        Ok(match serde_json::from_str::<Reply>(&self.line(limit)?)? {
            Reply::Cannot { cannot } => Reply::Cannot { cannot: shorten(&cannot) },
            done => done,
        })
    }

    /// Returns the number of bytes that the program has written, if the system reports it.
    pub fn written_bytes(&self) -> Option<u64> {
        written_bytes(&self.child.id().to_string())
    }

    fn line(&mut self, limit: Duration) -> io::Result<String> {
        match self.replies.recv_timeout(limit) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                Err(io::Error::new(io::ErrorKind::TimedOut, format!("took longer than {limit:?}")))
            }
            Err(RecvTimeoutError::Disconnected) => {
                // A program that closes its output usually ends immediately. It must not keep the benchmark waiting.
                for _ in 0..600 {
                    if let Some(status) = self.child.try_wait()? {
                        return Err(self.ended(status));
                    }
                    thread::sleep(Duration::from_millis(50));
                }
                self.kill();
                Err(io::Error::other("the program closed its output and did not end"))
            }
        }
    }

    /// Describes why the program ended: its status and the last line of its standard error.
    fn ended(&self, status: ExitStatus) -> io::Error {
        // A process that the program has started may keep standard error open.
        let error = self.error.recv_timeout(Duration::from_secs(30)).unwrap_or_default();
        io::Error::other(match error.as_str() {
            "" => format!("the program ended: {status}"),
            error => format!("the program ended: {status}: {error}"),
        })
    }

    fn kill(&mut self) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The program may still execute a run whose result is no longer needed.
        self.kill();
    }
}

/// Maximum number of characters of a reason in the results.
const MAX_REASON: usize = 200;

/// Returns the start of the first line of a reason.
fn shorten(reason: &str) -> String {
    reason.lines().next().unwrap_or_default().chars().take(MAX_REASON).collect()
}

/// Reads to the end and returns the start of the last line that describes an error, or an empty text.
fn last_line(errors: impl BufRead) -> String {
    let mut last = String::new();
    for line in errors.split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        let line = line.trim();
        // Rust ends the message of a panic with a note about backtraces.
        if !line.is_empty() && !line.starts_with("note: ") {
            last = shorten(line);
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Session {
        let command = ["sh", "-c", script].map(OsString::from).to_vec();
        let peer = Peer { name: "shell", kind: Kind::Rust, command };
        peer.start(Path::new("/")).expect("a shell exists")
    }

    #[test]
    fn failure_reason_is_the_last_line_of_standard_error() {
        let script = "echo '{\"version\": \"1\"}'; read request
            printf 'panicked at a.rs:\\n%s failed\\nnote: b\\n' \"$request\" >&2; exit 101";
        let mut session = shell(script);
        assert_eq!(session.ready().unwrap(), "1");
        let error = session.run("loop", 10, 1, Duration::from_secs(60)).unwrap_err();
        let expect = "the program ended: exit status: 101: loop 10 1 failed";
        assert_eq!(error.to_string(), expect);
    }

    #[test]
    fn failure_reason_is_reported_if_the_program_ends_between_two_requests() {
        let mut session = shell("echo '{\"version\": \"1\"}'; echo 'no memory' >&2; exit 3");
        assert_eq!(session.ready().unwrap(), "1");
        session.child.wait().unwrap();
        let error = session.run("loop", 10, 1, Duration::from_secs(60)).unwrap_err();
        assert_eq!(error.to_string(), "the program ended: exit status: 3: no memory");
    }

    #[test]
    fn a_long_error_is_shortened() {
        let text = format!("{}\n\n", "x".repeat(1_000));
        assert_eq!(last_line(text.as_bytes()), "x".repeat(MAX_REASON));
        assert_eq!(last_line(&b""[..]), "");
    }
}
