//! Runs the browser tests of `web/e2e` against the program.

use std::{
    env,
    io::{self, Write as _},
    path::Path,
    process::Command,
};

/// Environment variable that decides what happens if the web dependencies are missing: if it is set, the test fails;
/// otherwise the test is skipped.
const REQUIRE: &str = "GRAPH_REQUIRE_PAGE";

/// Reports a skipped test. Writes to stderr directly, because the output of `eprintln!` is captured in passing tests.
fn skipped(what: &str) {
    let _ = writeln!(io::stderr(), "SKIPPED: {what}");
}

#[test]
fn browser_tests_pass() {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web");
    if !web.join("node_modules").is_dir() {
        let why =
            "the web dependencies are not installed; run `npm --prefix web ci` (requires Node)";
        assert!(env::var_os(REQUIRE).is_none(), "{why}");
        skipped(&format!("browser tests; {why}"));
        return;
    }
    let screenshots = tempfile::tempdir().unwrap();
    // Runs only the test of a whole run unless `GRAPH_NIGHTLY` is set, because the others take minutes.
    let nightly = env::var_os("GRAPH_NIGHTLY").is_some();
    let files = if nightly { "e2e/*.test.mjs" } else { "e2e/whole-run.test.mjs" };
    if !nightly {
        skipped("browser tests other than the whole run; set GRAPH_NIGHTLY to run all of web/e2e");
    }
    let passed = Command::new("sh")
        .args(["-ec", &format!("exec node --test --test-concurrency=1 {files}")])
        .current_dir(web)
        .env("CONSULTING_BIN", env!("CARGO_BIN_EXE_consulting"))
        .env("SCREENSHOTS", screenshots.path())
        .status()
        .unwrap();
    assert!(passed.success());
}
