//! HAProxy, which distributes HTTP/2 requests among the workers.

use std::{
    env, fs,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
};

use tempfile::TempDir;
use test_support::ports::free_ports;

/// A load balancer. It is restarted when a worker is added.
pub(crate) struct HaProxy {
    program: PathBuf,
    port: u16,
    dir: TempDir,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    workers: Vec<SocketAddr>,
    /// A shell that runs HAProxy and kills it when the pipe from this process closes, even if this process is killed.
    guard: Option<Child>,
}

impl HaProxy {
    /// Chooses a port. Returns `None` if the program is not installed.
    pub(crate) fn start() -> Option<Self> {
        let program = find_program()?;
        let dir = tempfile::tempdir().expect("a temporary directory");
        Some(Self { program, port: free_ports(1)[0], dir, state: Mutex::default() })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Adds a worker and starts the program with the new configuration.
    pub(crate) fn add(&self, worker: SocketAddr) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.workers.push(worker);
        if let Some(guard) = &mut state.guard {
            end(guard);
        }
        let config = self.dir.path().join("haproxy.cfg");
        fs::write(&config, self.config(&state.workers)).expect("the directory is writable");
        let guard = Command::new("sh")
            .arg("-c")
            .arg("\"$0\" -db -f \"$1\" </dev/null & read _; kill -9 $!; wait")
            .arg(&self.program)
            .arg(config)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        state.guard = Some(guard.expect("the system has a shell"));
    }

    fn config(&self, workers: &[SocketAddr]) -> String {
        let port = self.port;
        let server = |(number, address): (usize, &SocketAddr)| {
            format!("  server worker-{number} {address} proto h2 check inter 200ms\n")
        };
        let servers: String = workers.iter().enumerate().map(server).collect();
        format!(
            "defaults\n  mode http\n  timeout connect 60s\n  timeout client 2h\n  timeout server 2h\n\
             frontend workers\n  bind 127.0.0.1:{port} proto h2\n  default_backend workers\n\
             backend workers\n  balance roundrobin\n  option redispatch\n  retries 3\n{servers}"
        )
    }
}

/// Finds the program. If it is not installed, prints that the test is skipped.
pub(crate) fn find_program() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs = env::split_paths(&path).chain(["/usr/sbin".into()]);
    let program = dirs.map(|it| it.join("haproxy")).find(|it| it.is_file());
    if program.is_none() {
        let why = "HAProxy is not installed; run `sudo apt-get install haproxy`";
        test_support::skip("GRAPH_REQUIRE_HAPROXY", why);
    }
    program
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(guard) = &mut state.guard {
            end(guard);
        }
    }
}

fn end(guard: &mut Child) {
    drop(guard.stdin.take());
    // Waiting cannot fail, because the shell is a child of this process.
    let _ = guard.wait();
}
