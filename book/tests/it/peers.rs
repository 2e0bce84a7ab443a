//! Packages that `cargo xtask test` installs for the tests; see `xtask/src/peers.rs`.

use std::{
    env,
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
};

/// LangGraph, its Python SDK (in `python`) and its JavaScript SDK with React (in `node`).
pub(crate) const LANGGRAPH: Peer =
    Peer { dir: "langgraph-sdk-0.4.14-1.12.0", require: "GRAPH_REQUIRE_LANGGRAPH_SDK" };

/// Clients for user interfaces, from npm.
pub(crate) const UI_CLIENTS: Peer =
    Peer { dir: "ui-clients-1.0.0-6.0.326-0.0.43-0.14.25", require: "GRAPH_REQUIRE_UI_CLIENTS" };

/// The AI SDK's adapter for LangGraph, from npm. Installed only for the nightly tests.
pub(crate) const UI_RUNTIMES: Peer =
    Peer { dir: "ui-runtimes-1.75.0-2.0.296", require: "GRAPH_REQUIRE_UI_RUNTIMES" };

/// The client of the Agent2Agent protocol, from PyPI.
pub(crate) const A2A: Peer = Peer { dir: "a2a-1.3.0", require: "GRAPH_REQUIRE_A2A" };

/// Packages in one directory.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Peer {
    dir: &'static str,
    /// Environment variable that makes the tests fail instead of being skipped if the packages are missing.
    require: &'static str,
}

impl Peer {
    /// Returns the directory of the packages. Returns `None` if they are not installed; the test is then skipped.
    pub(crate) fn find(self) -> Option<PathBuf> {
        let peers = env::var_os("GRAPH_PEERS").map_or_else(
            || Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("peers"),
            PathBuf::from,
        );
        let dir = peers.join(self.dir);
        if dir.is_dir() {
            return Some(dir);
        }
        self.skip(&format!("{} does not exist; `cargo xtask test` installs it", dir.display()));
        None
    }

    /// Reports that the test is skipped. Panics if the environment variable `require` is set.
    pub(crate) fn skip(self, why: &str) {
        assert!(env::var_os(self.require).is_none(), "{why}");
        report_skipped(why);
    }
}

/// Prints that the test is skipped. Writes directly to standard error, because the test harness captures the output of
/// print macros.
pub(crate) fn report_skipped(why: &str) {
    let test = thread::current().name().unwrap_or("a test").to_owned();
    let _ = writeln!(io::stderr(), "SKIPPED: {test}: {why}");
}
