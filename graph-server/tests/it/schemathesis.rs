//! schemathesis, of PyPI: it asks a server whatever its OpenAPI document allows and much that it does not, and compares
//! each answer with what the document says.

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
    thread,
};

/// The folder with it, which xtask makes: the name is in `xtask/src/peers.rs`.
const FOLDER: &str = "schemathesis-4.32.5";

/// Where it is; nothing where the test cannot be made.
pub(crate) fn folder() -> Option<PathBuf> {
    let peers = env::var_os("GRAPH_PEERS").map_or_else(
        || Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("peers"),
        PathBuf::from,
    );
    let folder = peers.join(FOLDER);
    if folder.is_dir() {
        return Some(folder);
    }
    let why = format!("schemathesis is not in {}; `cargo xtask test` fetches it", folder.display());
    assert!(env::var_os("GRAPH_REQUIRE_SCHEMATHESIS").is_none(), "{why}");
    let test = thread::current().name().unwrap_or("a test").to_owned();
    let _ = writeln!(io::stderr(), "SKIPPED: {test}: {why}");
    None
}

/// Parameters beyond those of a document are no fault: whoever likes may add headers.
const USUAL: &str = "[generation]\nallow-extra-parameters = false\n";

/// Asks the server at an address. What it cannot know by itself, such as names of runs, is in its configuration. Blocks
/// until it is done.
#[track_caller]
pub(crate) fn ask(program: &Path, address: &str, configuration: &str, more: &[&str]) {
    // It leaves files where it works.
    let folder = tempfile::tempdir().unwrap();
    let configuration = format!("{USUAL}{configuration}");
    fs::write(folder.path().join("schemathesis.toml"), configuration).unwrap();
    let examples = if env::var_os("GRAPH_NIGHTLY").is_some() { "200" } else { "10" };
    let asked = Command::new("python3")
        .args(["-m", "schemathesis.cli", "--no-color", "run"])
        .arg(format!("{address}/openapi.json"))
        .args(["--phases", "examples,coverage,fuzzing", "--max-examples", examples])
        .args(["--seed", "1", "--generation-database", "none", "--continue-on-failure"])
        // On a machine that has much else to do.
        .args(["--request-timeout", "60"])
        .args(more)
        .env("PYTHONPATH", program)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&asked.stdout);
    assert!(asked.status.success(), "{said}{}", String::from_utf8_lossy(&asked.stderr));
    let asked = said.split_once(" generated, ").and_then(|it| it.0.split_whitespace().last());
    let asked: usize = asked.and_then(|it| it.parse().ok()).unwrap_or(0);
    assert!(asked > 100, "it hardly asked anything: {said}");
}
