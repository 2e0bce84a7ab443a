//! Sandboxes from the outside: the suite on every back end of this machine, and what needs more than one process.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may panic")]

mod crash;
#[cfg(feature = "docker")]
mod docker;
mod handle_override;
mod handshake;
mod images;
mod isolation;
#[cfg(target_arch = "x86_64")]
mod kvm_process;
mod microvm;
mod misbehaving_guests;
mod names;
mod parsing;
mod pool;
mod registry;
mod suite;
mod termination;
mod traces;
mod vm_graph;

use std::io::Write;

use sandbox_vm::{Isolation, Sandboxes, backend::Backend};
use tempfile::TempDir;

/// The guest of the suite.
const HOSTILE: &str = env!("CARGO_BIN_EXE_sandbox-vm-hostile");

/// Sandboxes of one back end, in a folder of their own.
async fn sandboxes(backend: impl Backend + 'static) -> (Sandboxes, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let builder = Sandboxes::builder().backend(backend).isolation(Isolation::Preferred);
    let sandboxes = builder.state_dir(dir.path().join("state")).open().await.unwrap();
    (sandboxes, dir)
}

/// Says that something was not tested, and why. Past the test harness, which shows nothing of a test that passes.
fn report_skipped(what: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}");
}
