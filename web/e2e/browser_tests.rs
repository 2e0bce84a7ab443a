//! Runs browser tests of this directory with Node. The tests of each crate that serves a page include this file.

use std::{ffi::OsStr, path::Path, process::Command};

/// Environment variable that decides what happens if the web dependencies are missing: if it is set, the test fails;
/// otherwise the test is skipped.
const REQUIRE: &str = "GRAPH_REQUIRE_PAGE";

/// Runs the test files that match `pattern`, shell patterns relative to `web`. `paths` are environment variables in
/// which the test files expect the paths of the programs under test.
pub(crate) fn run<P: AsRef<OsStr>>(
    pattern: &str,
    paths: impl IntoIterator<Item = (&'static str, P)>,
) {
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
        .envs(paths)
        .env("SCREENSHOTS", screenshots.path())
        .status();
    assert!(status.expect("a shell is installed").success());
}
