//! The guest program of the test suite. It contains the suite's graphs and a set of programs that try to escape from
//! the sandbox.

use std::process::ExitCode;

use sandbox_vm::{guest, testkit};

fn main() -> ExitCode {
    guest::enter(testkit::agent);
    let args: Vec<String> = std::env::args().skip(1).collect();
    testkit::hostile::main(&args)
}
