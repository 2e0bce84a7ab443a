//! Locations of the MCP servers and clients that `cargo xtask test` installs.

use std::{
    env,
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
};

/// Returns the directory of a program; see `xtask/src/peers.rs`. If it does not exist, fails the test if the environment
/// variable `require` is set, and otherwise prints that the test is skipped and returns `None`.
pub(crate) fn dir(name: &str, require: &str) -> Option<PathBuf> {
    let peers = env::var_os("GRAPH_PEERS").map_or_else(
        || Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("peers"),
        PathBuf::from,
    );
    let dir = peers.join(name);
    if dir.is_dir() {
        return Some(dir);
    }
    let why = format!("{} does not exist; `cargo xtask test` installs it", dir.display());
    assert!(env::var_os(require).is_none(), "{why}");
    let test = thread::current().name().unwrap_or("a test").to_owned();
    // Write to the stderr handle, because the test harness captures the output of `eprintln!` for passing tests.
    let _ = writeln!(io::stderr(), "SKIPPED: {test}: {why}");
    None
}

/// Returns the directory of the official Python client.
pub(crate) fn client() -> Option<PathBuf> {
    dir("mcp-2.3.0", "GRAPH_REQUIRE_MCP")
}
