//! Runs browser tests of this directory with Node. The tests of each crate that serves a page include this file.

use std::{ffi::OsStr, path::Path, process::Command};

/// Environment variable that decides what happens if the web dependencies are missing: if it is set, the test fails;
/// otherwise the test is skipped.
const REQUIRE: &str = "GRAPH_REQUIRE_PAGE";

/// Runs the test files that match `pattern`, shell patterns relative to `web`. `program` is the program under test,
/// and `variable` the environment variable in which the test files expect its path.
pub(crate) fn run(pattern: &str, variable: &str, program: impl AsRef<OsStr>) {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web");
    if !web.join("node_modules").is_dir() {
        let why =
            "the web dependencies are not installed; run `npm --prefix web ci` (requires Node)";
        return test_support::skip(REQUIRE, why);
    }
    let screenshots = tempfile::tempdir().expect("the temporary directory is writable");
    let status = Command::new("sh")
        .args(["-ec", &format!("exec node --test --test-concurrency=1 {pattern}")])
        .current_dir(web)
        .env(variable, program)
        .env("SCREENSHOTS", screenshots.path())
        .status();
    assert!(status.expect("a shell is installed").success());
}
