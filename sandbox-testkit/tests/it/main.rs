//! Runs the conformance suite on every back end that this machine supports, and tests that need the suite's guests.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may panic")]

mod cpu_time;
mod crash;
#[cfg(feature = "docker")]
mod docker;
mod handle_override;
mod isolation;
mod kernel_memory;
#[cfg(target_arch = "x86_64")]
mod kvm_process;
mod microvm;
mod names;
mod pool;
mod registry;
mod subgraphs;
mod suite;
mod terminal;
mod termination;
mod traces;
mod vm_graph;

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use sandbox_vm::{Isolation, Sandboxes, backend::Backend};
use tempfile::TempDir;

/// Path of the suite's guest program.
const HOSTILE: &str = env!("CARGO_BIN_EXE_sandbox-vm-hostile");

/// Opens a sandbox manager with one back end and a temporary state directory.
async fn sandboxes(backend: impl Backend + 'static) -> (Sandboxes, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let builder = Sandboxes::builder().backend(backend).isolation(Isolation::Preferred);
    let builder = builder.start_timeout(sandbox_testkit::START_TIMEOUT);
    let sandboxes = builder.state_dir(dir.path().join("state")).open().await.unwrap();
    (sandboxes, dir)
}

/// Starts a host process and waits until its sandboxes are live.
fn start_host(host: &mut Command) -> Child {
    let mut host = host.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(host.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    host
}
