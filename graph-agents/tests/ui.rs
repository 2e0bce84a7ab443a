//! Error messages for `#[tool]` functions that must not compile.

/// Runs only if `GRAPH_NIGHTLY` is set, because it builds all dependencies again.
#[test]
fn ui() {
    if std::env::var_os("GRAPH_NIGHTLY").is_some() {
        trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
    }
}
