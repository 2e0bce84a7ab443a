//! Runs the browser tests of `web/e2e/sandbox` against the program.

#[path = "../../../web/e2e/browser_tests.rs"]
mod browser_tests;

use crate::PROGRAM;

#[test]
fn browser_tests_pass() {
    browser_tests::run("e2e/sandbox/*.test.mjs", [("SANDBOX_BIN", PROGRAM)]);
}
