//! Runs schemathesis, which sends requests that the OpenAPI document allows and many that it does not allow, and
//! compares each response with the document.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use test_support::peers;

/// Returns the directory of schemathesis. Returns `None` if it is not installed; the test is then skipped.
pub(crate) fn find() -> Option<PathBuf> {
    peers::find("schemathesis-4.32.5", "GRAPH_REQUIRE_SCHEMATHESIS")
}

/// Configuration for all tests. Schemathesis must not add undeclared parameters as invalid input, because the server
/// accepts requests with any headers.
const BASE_CONFIG: &str = "[generation]\nallow-extra-parameters = false\n";

/// Runs schemathesis against the server and blocks until it finishes. `configuration` supplies values that
/// schemathesis cannot know, such as the ids of runs.
#[track_caller]
pub(crate) fn run(program: &Path, address: &str, configuration: &str, more: &[&str]) {
    // The working directory is temporary, because schemathesis writes files to it.
    let dir = tempfile::tempdir().unwrap();
    let configuration = format!("{BASE_CONFIG}{configuration}");
    fs::write(dir.path().join("schemathesis.toml"), configuration).unwrap();
    // The coverage phase sends every boundary value of every parameter, which takes minutes.
    let (phases, examples) = if test_support::is_nightly() {
        ("examples,coverage,fuzzing", "200")
    } else {
        ("examples,fuzzing", "10")
    };
    let output = Command::new("python3")
        .args(["-m", "schemathesis.cli", "--no-color", "run"])
        .arg(format!("{address}/openapi.json"))
        .args(["--phases", phases, "--max-examples", examples])
        .args(["--seed", "1", "--generation-database", "none", "--continue-on-failure"])
        // Allows for slow responses and slow generation of data on busy machines.
        .args(["--request-timeout", "600", "--suppress-health-check", "too_slow"])
        .args(more)
        .env("PYTHONPATH", program)
        .current_dir(dir.path())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    let n_cases = stdout.split_once(" generated, ").and_then(|it| it.0.split_whitespace().last());
    let n_cases: usize = n_cases.and_then(|it| it.parse().ok()).unwrap_or(0);
    assert!(n_cases > 50, "too few test cases: {stdout}");
}
