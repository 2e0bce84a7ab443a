//! Error messages for `#[tool]` functions that must not compile.

use std::env;

/// Runs only if `GRAPH_NIGHTLY` is set, because it builds all dependencies of the crate again, which takes minutes.
#[test]
fn ui() {
    if env::var_os("GRAPH_NIGHTLY").is_some() {
        trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
        return;
    }
    test_support::report_skipped("it builds all dependencies again; set GRAPH_NIGHTLY=1 to run it");
}
