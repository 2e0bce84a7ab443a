//! Runs LangGraph's official Python and JavaScript clients against the example server `reference`. Each suite is also
//! validated against LangGraph's own server; see `clients/README.md`.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may panic")]

#[path = "../../web/e2e/browser_tests.rs"]
mod browser_tests;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use test_support::{
    peers,
    process::{Process, example},
};

/// Name of the directory into which xtask installs the clients; see `xtask/src/peers.rs`.
const DIR_NAME: &str = "langgraph-sdk-0.4.14-1.12.0-1.1.0";

/// Returns the directory of the clients. Returns `None` if they are not installed; the test is then skipped.
fn find() -> Option<PathBuf> {
    peers::find(DIR_NAME, "GRAPH_REQUIRE_LANGGRAPH_SDK")
}

/// Runs a suite in its directory and fails with its output unless all cases pass.
#[track_caller]
fn run(suite: &str, command: &mut Command) {
    let data = tempfile::tempdir().unwrap();
    let mut server = Command::new(example("graph-server", "reference").unwrap());
    server.args(["--port", "0", "--data"]).arg(data.path());
    let (_server, address) = Process::start_server(&mut server);
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    command
        .current_dir(clients.join(suite))
        .env("GRAPH_SERVER_URL", address)
        .env("NO_PROXY", "127.0.0.1");
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn cases_of_the_python_client_pass() {
    let Some(clients) = find() else { return };
    let mut command = Command::new("python3");
    command.args(["-m", "pytest", "--tb=short"]);
    // Bytecode files must not be written to the source directory.
    command.env("PYTHONPATH", clients.join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
    run("python", &mut command);
}

#[test]
fn cases_of_the_javascript_client_pass() {
    let Some(clients) = find() else { return };
    let mut command = Command::new("node");
    // The other files need further packages and graphs: see `langgraph_services/ui.rs`.
    let suites = ["admin", "client", "protocol", "runs", "streams", "threads", "use_stream"];
    command.arg("--test").args(suites.map(|it| format!("{it}.test.mjs")));
    command.env("GRAPH_CLIENTS_NODE", clients.join("node"));
    run("javascript", &mut command);
}

#[test]
fn react_hooks_work_in_chromium() {
    let Some(clients) = find() else { return };
    let paths = [
        ("GRAPH_CLIENTS_NODE", clients.join("node")),
        ("REFERENCE_BIN", example("graph-server", "reference").unwrap()),
        ("STUDIO_BIN", example("graph-server", "studio").unwrap()),
    ];
    browser_tests::run("e2e/use-stream/*.test.mjs", paths);
}
