//! Suites of LangGraph's official clients: the files in `graph-server/tests/clients`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::peers;

/// Name of the directory into which xtask installs the clients; see `xtask/src/peers.rs`.
const DIR_NAME: &str = "langgraph-sdk-0.4.14-1.12.0-1.1.0";

/// Returns the directory of the clients. Returns `None` if they are not installed; the test is then skipped.
///
/// # Panics
///
/// Panics if the clients are not installed and the environment variable `GRAPH_REQUIRE_LANGGRAPH_SDK` is set.
#[must_use]
#[track_caller]
pub fn find() -> Option<PathBuf> {
    peers::find(DIR_NAME, "GRAPH_REQUIRE_LANGGRAPH_SDK")
}

/// Returns the command that runs these files of the Python suite, or all files `test_*.py` if `files` is empty.
#[must_use]
pub fn python(clients: &Path, files: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(["-m", "pytest", "--tb=short"]).args(files).current_dir(suite("python"));
    // Bytecode files must not be written to the source directory.
    command.env("PYTHONPATH", clients.join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Returns the command that runs these files of the JavaScript suite.
#[must_use]
pub fn javascript(clients: &Path, files: &[&str]) -> Command {
    let mut command = Command::new("node");
    command.arg("--test").args(files).current_dir(suite("javascript"));
    command.env("GRAPH_CLIENTS_NODE", clients.join("node"));
    command
}

fn suite(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../graph-server/tests/clients").join(name)
}

/// Runs a suite against the server at `url`.
///
/// # Panics
///
/// Panics with the output of the suite unless all cases pass.
#[track_caller]
pub fn run(command: &mut Command, url: &str) {
    command.env("GRAPH_SERVER_URL", url).env("NO_PROXY", "127.0.0.1");
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => panic!("cannot start {command:?}: {error}"),
    };
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
}
