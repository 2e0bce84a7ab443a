//! Packages that `cargo xtask test` installs for the tests; see `xtask/src/peers.rs`.

use std::path::PathBuf;

use test_support::peers;

/// LangGraph, its Python SDK (in `python`), and its JavaScript SDK and package for React (in `node`).
pub(crate) const LANGGRAPH: Peer =
    Peer { dir: "langgraph-sdk-0.4.14-1.12.0-1.1.0", require: "GRAPH_REQUIRE_LANGGRAPH_SDK" };

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
        peers::find(self.dir, self.require)
    }

    /// Reports that the test is skipped. Panics if the environment variable that `require` names is set.
    pub(crate) fn skip(self, why: &str) {
        test_support::skip(self.require, why);
    }
}
