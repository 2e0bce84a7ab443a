//! Runs LangGraph's official Python and JavaScript clients against the example server `reference`. Each suite is also
//! validated against LangGraph's own server; see `clients/README.md`.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may panic")]

#[path = "it/peers.rs"]
mod peers;

use std::{
    env,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

/// Name of the directory into which xtask installs the clients; see `xtask/src/peers.rs`.
const DIR_NAME: &str = "langgraph-sdk-0.4.14-1.12.0";

/// Returns the directory of the clients. Returns `None` if they are not installed; the test is then skipped.
fn find() -> Option<PathBuf> {
    peers::find(DIR_NAME, "GRAPH_REQUIRE_LANGGRAPH_SDK")
}

/// A running example server, which is killed when the value is dropped.
struct Reference {
    process: Child,
    address: String,
    _data: TempDir,
}

impl Reference {
    /// Starts the server on a free port.
    fn start() -> Self {
        let test = env::current_exe().unwrap();
        // The test is `target/<profile>/deps/clients-<hash>`; examples are in `target/<profile>/examples`.
        let program = test.ancestors().nth(2).unwrap().join("examples/reference");
        assert!(
            program.is_file(),
            "{} does not exist; run `cargo build -p graph-server --example reference`",
            program.display(),
        );
        let data = tempfile::tempdir().unwrap();
        let mut process = Command::new(program)
            .args(["--port", "0", "--data"])
            .arg(data.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap_or_default().to_owned();
        assert!(address.starts_with("http://"), "unexpected first line of the server: {line:?}");
        Self { process, address, _data: data }
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a suite in its directory and fails with its output unless all cases pass.
#[track_caller]
fn run(suite: &str, command: &mut Command) {
    let server = Reference::start();
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    command
        .current_dir(clients.join(suite))
        .env("GRAPH_SERVER_URL", &server.address)
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
    command.args(["--test", "client.test.mjs", "protocol.test.mjs", "use_stream.test.mjs"]);
    command.env("GRAPH_CLIENTS_NODE", clients.join("node"));
    run("javascript", &mut command);
}
