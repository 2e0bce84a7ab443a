//! Error messages for `#[tool]` functions that must not compile.

/// Runs only if `GRAPH_NIGHTLY` is set, because it builds all dependencies of the crate again, which takes minutes.
#[test]
fn ui() {
    if test_support::is_nightly() {
        trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
        return;
    }
    test_support::report_nightly_only("it builds all dependencies again");
}
