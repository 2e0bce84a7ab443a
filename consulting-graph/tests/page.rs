//! Runs the browser tests of `web/e2e` against the program.

#[path = "../../web/e2e/browser_tests.rs"]
mod browser_tests;

#[test]
fn browser_tests_pass() {
    // The other tests wait for slow models or repeat whole runs, so they run only if `GRAPH_NIGHTLY` is set.
    let files = if test_support::is_nightly() {
        "e2e/*.test.mjs"
    } else {
        test_support::report_skipped(
            "browser tests other than the report, the whole run and the main flows; set GRAPH_NIGHTLY to run all of web/e2e",
        );
        "e2e/flows.test.mjs e2e/report.test.mjs e2e/whole-run.test.mjs"
    };
    browser_tests::run(files, [("CONSULTING_BIN", env!("CARGO_BIN_EXE_consulting"))]);
}
