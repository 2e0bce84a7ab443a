//! The page in a real browser, against the real program: what `web/e2e` does.

use std::{
    env,
    io::{self, Write as _},
    path::Path,
    process::Command,
};

/// Lets the test fail, and not skip, where it cannot be made.
const REQUIRE: &str = "GRAPH_REQUIRE_PAGE";

/// Says aloud what is not tested, also while the output of tests is captured: what goes through `eprintln!` is shown
/// for failing tests alone.
fn skipped(what: &str) {
    let _ = writeln!(io::stderr(), "SKIPPED: {what}");
}

#[test]
fn the_page_passes_in_a_browser() {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web");
    if !web.join("node_modules").is_dir() {
        let why = "the page's tools are not there: run `npm --prefix web ci`, which needs Node";
        assert!(env::var_os(REQUIRE).is_none(), "{why}");
        skipped(&format!("tests of the page in a browser; {why}"));
        return;
    }
    let screenshots = tempfile::tempdir().unwrap();
    // A whole run, watched and read; the rest takes minutes.
    let nightly = env::var_os("GRAPH_NIGHTLY").is_some();
    let files = if nightly { "e2e/*.test.mjs" } else { "e2e/whole-run.test.mjs" };
    if !nightly {
        skipped("tests of the page beyond a whole run; set GRAPH_NIGHTLY for all of web/e2e");
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
