//! A worker in its own process.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
};

use graph_tests::ports::free_ports;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// A running worker. It ends when this value is dropped, or when this process dies.
pub(crate) struct WorkerProcess {
    pub(crate) id: String,
    pub(crate) address: SocketAddr,
    child: Child,
    _stdin: Option<ChildStdin>,
}

impl WorkerProcess {
    pub(crate) fn start(id: String, database: &str, effects: &Path, options: &[String]) -> Self {
        // Only workers for Restate listen on it.
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_ports(1)[0]));
        let mut child = Command::new(env!("CARGO_BIN_EXE_cluster-demo"))
            .args(["worker", "--database", database, "--id", &id, "--stdin", "true"])
            // Tests in which no worker fails must not lose runs on an overloaded machine. See `SHORT_LEASE`.
            .args(["--lease-ms", "60000", "--listen", &address.to_string(), "--effects"])
            .arg(effects)
            .args(options)
            .stdin(Stdio::piped())
            .spawn()
            .expect("the worker is built");
        let stdin = child.stdin.take();
        Self { id, address, child, _stdin: stdin }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the worker was not waited for");
    }

    /// Stops the process and waits until all its threads have stopped.
    pub(crate) fn suspend(&self) {
        self.signal(Signal::STOP);
        let stopped = waitpid(Some(Pid::from_child(&self.child)), WaitOptions::UNTRACED);
        let stopped = stopped.expect("the worker is a child of this process");
        assert!(stopped.is_some_and(|(_, status)| status.stopped()), "{} has ended", self.id);
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("the worker is a child of this process").is_none()
    }

    /// Waits for the end of the process.
    pub(crate) fn join(mut self) -> ExitStatus {
        self.child.wait().expect("the worker is a child of this process")
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // Fails if the worker has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
