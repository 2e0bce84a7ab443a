//! The guest program of the test suite. It contains the suite's graphs and a set of programs that try to escape from
//! the sandbox.

use std::process::ExitCode;

use sandbox_vm::guest;

fn main() -> ExitCode {
    guest::enter(sandbox_testkit::agent);
    let args: Vec<String> = std::env::args().skip(1).collect();
    sandbox_testkit::hostile::main(&args)
}
