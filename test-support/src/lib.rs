//! Utilities for the tests of several crates: finding optional programs and free ports, starting processes and servers
//! that end with a test, and running the suites of LangGraph's official clients.

pub mod langgraph_sdk;
pub mod llama;
pub mod peers;
pub mod ports;
pub mod process;
pub mod restate;
pub mod server;

use std::{
    env,
    io::{self, Write},
    thread,
    time::Duration,
};

/// Maximum time that a test waits for an event. It is long, because a busy machine may delay any event by many seconds.
pub const DEADLINE: Duration = Duration::from_secs(180);

/// Reports that the current test is skipped because something is missing.
///
/// # Panics
///
/// Panics if the environment variable that `require` names is set.
#[track_caller]
pub fn skip(require: &str, why: &str) {
    assert!(env::var_os(require).is_none(), "{why}");
    report_skipped(why);
}

/// Returns whether long test runs are enabled, by the environment variable `GRAPH_NIGHTLY=1`.
pub fn is_nightly() -> bool {
    env::var_os("GRAPH_NIGHTLY").is_some_and(|it| it == "1")
}

/// Prints that the current test is skipped because it runs only if [`is_nightly`].
pub fn report_nightly_only(why: &str) {
    report_skipped(&format!("{why}; set GRAPH_NIGHTLY=1 to run it"));
}

/// Prints that the current test is skipped.
pub fn report_skipped(why: &str) {
    print_uncaptured("SKIPPED", why);
}

/// Prints a figure that the current test has measured, so that every run of the tests shows it.
pub fn report_measured(figure: &str) {
    print_uncaptured("MEASURED", figure);
}

/// Writes directly to standard error, because the test harness captures the output of print macros.
fn print_uncaptured(kind: &str, text: &str) {
    let test = thread::current().name().unwrap_or("a test").to_owned();
    let _ = writeln!(io::stderr(), "{kind}: {test}: {text}");
}
