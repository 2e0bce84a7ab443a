//! Error messages for `#[tool]` functions that must not compile.

use std::{
    env,
    io::{self, Write},
};

/// Runs only if `GRAPH_NIGHTLY` is set, because it builds all dependencies of the crate again, which takes minutes.
#[test]
fn ui() {
    if env::var_os("GRAPH_NIGHTLY").is_some() {
        trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
        return;
    }
    // Writes directly to stderr, because the test harness captures the output of print macros.
    let skipped = "SKIPPED: ui: it builds all dependencies again; set GRAPH_NIGHTLY=1 to run it";
    let _ = writeln!(io::stderr(), "{skipped}");
}
