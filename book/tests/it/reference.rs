//! The example server `reference` of `graph-server`, to which the programs of the chapters connect.

use std::process::Command;

use tempfile::TempDir;
use test_support::process::{Process, example};

use crate::peers::Peer;

/// The address of the server in the chapters.
const ADDRESS: &str = "http://127.0.0.1:8123";

/// A running server.
pub(crate) struct Reference {
    _process: Process,
    address: String,
    _data: TempDir,
}

impl Reference {
    /// Starts the server on a free port. If it is not built, reports that the test with `peer` is skipped and returns
    /// `None`.
    pub(crate) fn start(peer: Peer) -> Option<Self> {
        let program = example("graph-server", "reference").map_err(|why| peer.skip(&why)).ok()?;
        let data = tempfile::tempdir().unwrap();
        let mut command = Command::new(program);
        command.args(["--port", "0", "--data"]).arg(data.path());
        let (process, address) = Process::start_server(&mut command);
        Some(Self { _process: process, address, _data: data })
    }

    /// Replaces the server address that the chapters use with the address of this server.
    pub(crate) fn replace_address(&self, code: &str) -> String {
        code.replace(ADDRESS, &self.address)
    }
}
