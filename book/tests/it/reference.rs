//! The example server `reference` of `graph-server`, to which the programs of the chapters connect.

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use crate::peers::Peer;

/// The address of the server in the chapters.
const ADDRESS: &str = "http://127.0.0.1:8123";

/// A running server, which is killed when the value is dropped.
pub(crate) struct Reference {
    process: Child,
    address: String,
    _data: TempDir,
}

impl Reference {
    /// Starts the server on a free port. Returns `None` if it is not built; the test of `peer` is then skipped.
    pub(crate) fn start(peer: Peer) -> Option<Self> {
        let test = env::current_exe().unwrap();
        // The test is `target/<profile>/deps/it-<hash>`; examples are in `target/<profile>/examples`.
        let program = test.ancestors().nth(2).unwrap().join("examples/reference");
        if !program.is_file() {
            peer.skip("run `cargo build -p graph-server --example reference` first");
            return None;
        }
        let data = tempfile::tempdir().unwrap();
        let mut command = Command::new(program);
        command.args(["--port", "0", "--data"]).arg(data.path()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap_or_default().to_owned();
        assert!(address.starts_with("http://"), "unexpected first line of the server: {line:?}");
        Some(Self { process, address, _data: data })
    }

    /// Replaces the address of the chapters with the address of this server.
    pub(crate) fn replace_address(&self, code: &str) -> String {
        code.replace(ADDRESS, &self.address)
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
