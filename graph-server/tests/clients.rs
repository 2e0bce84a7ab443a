//! Runs LangGraph's official Python and JavaScript clients against the example server `reference`. Each suite is also
//! validated against LangGraph's own server; see `clients/README.md`.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may panic")]

#[path = "../../web/e2e/browser_tests.rs"]
mod browser_tests;

use std::process::Command;

use test_support::{
    langgraph_sdk::{self, find},
    process::{Process, example},
};

/// Runs a suite against the example server, and fails with its output unless all cases pass.
#[track_caller]
fn run(suite: &mut Command) {
    let data = tempfile::tempdir().unwrap();
    let mut server = Command::new(example("graph-server", "reference").unwrap());
    server.args(["--port", "0", "--data"]).arg(data.path());
    let (_server, address) = Process::start_server(&mut server);
    langgraph_sdk::run(suite, &address);
}

#[test]
fn cases_of_the_python_client_pass() {
    let Some(clients) = find() else { return };
    run(&mut langgraph_sdk::python(&clients, &[]));
}

#[test]
fn cases_of_the_javascript_client_pass() {
    let Some(clients) = find() else { return };
    // The other files need additional packages, graphs or programs: see `langgraph_services/ui.rs` and `README.md`.
    let files = [
        "admin.test.mjs", "client.test.mjs", "protocol.test.mjs", "runs.test.mjs",
        "streams.test.mjs", "threads.test.mjs", "use_stream.test.mjs",
    ];
    run(&mut langgraph_sdk::javascript(&clients, &files));
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
