//! A worker in its own process.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{ChildStdin, Command, ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use test_support::ports::free_ports;
use test_support::process::Process;

/// A running worker. It ends when this value is dropped, or when this process dies.
pub(crate) struct WorkerProcess {
    pub(crate) id: String,
    pub(crate) address: SocketAddr,
    process: Process,
    _stdin: Option<ChildStdin>,
}

impl WorkerProcess {
    pub(crate) fn start(id: String, database: &str, effects: &Path, options: &[String]) -> Self {
        // Only workers for Restate listen on it.
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_ports(1)[0]));
        let mut command = Command::new(env!("CARGO_BIN_EXE_cluster-demo"));
        command
            .args(["worker", "--database", database, "--id", &id, "--stdin", "true"])
            // Tests in which no worker fails must not lose runs on an overloaded machine. See `SHORT_LEASE`.
            .args(["--lease-ms", "60000", "--listen", &address.to_string(), "--effects"])
            .arg(effects)
            .args(options)
            .stdin(Stdio::piped());
        let mut process = Process::start(&mut command);
        let stdin = process.0.stdin.take();
        Self { id, address, process, _stdin: stdin }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.process.0);
        kill_process(pid, signal).expect("the worker was not waited for");
    }

    /// Stops the process and waits until all its threads have stopped.
    pub(crate) fn suspend(&self) {
        self.signal(Signal::STOP);
        let stopped = waitpid(Some(Pid::from_child(&self.process.0)), WaitOptions::UNTRACED);
        let stopped = stopped.expect("the worker is a child of this process");
        assert!(stopped.is_some_and(|(_, status)| status.stopped()), "{} has ended", self.id);
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.0.try_wait().expect("the worker is a child of this process").is_none()
    }

    /// Waits for the end of the process.
    pub(crate) fn join(mut self) -> ExitStatus {
        self.process.0.wait().expect("the worker is a child of this process")
    }
}
