//! The programs that are compared, as child processes.

use std::{
    env,
    ffi::OsString,
    io::{self, BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;

/// A program that executes workloads.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Name in the results.
    pub name: &'static str,
    /// What the comparison with this peer shows.
    pub kind: Kind,
    command: Vec<OsString>,
}

/// The groups of the goals.
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
    /// Processor time of all threads.
    pub cpu: f64,
    /// Growth of the resident memory at its peak, in bytes.
    pub memory: u64,
}

/// Argument that turns the benchmark into the program that executes the workloads on the engine.
pub const ENGINE: &str = "peer-engine";

/// Argument that turns the benchmark into the program that executes the workloads by hand.
pub const BY_HAND: &str = "peer-by-hand";

/// Returns all peers: the engine first, then the work by hand, then the installed ones.
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
}

#[derive(Deserialize)]
struct Hello {
    version: String,
}

impl Peer {
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
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let requests = child.stdin.take().expect("standard input is a pipe");
        let output = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        let (sender, replies) = channel();
        // Ends when the program closes its output or the session is dropped.
        thread::spawn(move || output.lines().try_for_each(|it| sender.send(it)));
        Ok(Session { child, requests, replies })
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
        writeln!(self.requests, "{workload} {size} {runs}")?;
        self.requests.flush()?;
        Ok(serde_json::from_str(&self.line(limit)?)?)
    }

    fn line(&mut self, limit: Duration) -> io::Result<String> {
        match self.replies.recv_timeout(limit) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                Err(io::Error::new(io::ErrorKind::TimedOut, format!("took longer than {limit:?}")))
            }
            Err(RecvTimeoutError::Disconnected) => {
                // A program that closes its output usually ends immediately. It must not keep the benchmark waiting.
                for _ in 0..20 {
                    if let Some(status) = self.child.try_wait()? {
                        return Err(io::Error::other(format!("the program ended: {status}")));
                    }
                    thread::sleep(Duration::from_millis(50));
                }
                self.kill();
                Err(io::Error::other("the program closed its output and did not end"))
            }
        }
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
        // The program may be in the middle of a run that nobody waits for.
        self.kill();
    }
}
