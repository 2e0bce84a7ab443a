//! Project commands: `cargo xtask test`, `lint`, `bench`, `callgrind`, `book`, `model`, `guest-image` and `web`.
//!
//! This crate depends only on the standard library, because every command has to wait until this crate is built.

#![expect(clippy::print_stdout, reason = "a command-line tool prints to standard output")]

use std::{env, path::PathBuf, process::ExitCode};

use crate::{callgrind::Baseline, error::Error, model::Model, plan::Depth};

mod backports;
mod bench;
mod book;
mod callgrind;
mod error;
mod examples;
mod guest_image;
mod lint;
mod model;
mod needs;
mod package;
mod peers;
mod plan;
mod run_tests;
mod step;
mod test;
mod web;

const HELP: &str = "\
Usage: cargo xtask COMMAND

  test [--nightly]      Run all CI checks. Installs missing test dependencies where permitted.
                        --nightly: Also run long property tests, kill tests and tests with a small real model
  run-tests [ARGS...]   Run the test programs only, two at a time; ARGS are passed to `cargo test`
  lint                  Check formatting, clippy lints and documentation
  bench [ARGS...]       Run the benchmarks; ARGS are passed to the benchmark program
  callgrind [--bless]   Count instructions and compare them with benches/callgrind.txt
                        --bless: Overwrite that file with the new counts
  book                  Render the book and fail on warnings; the first run installs mdBook
  model [NAME]          Download a small real model for the nightly tests and print its path
  guest-image           Build the guest agents, kernel and images for micro VMs (requires Debian's apt)
  web                   Build the pages of `consulting serve`, `agent-sandbox serve` and the studio (requires Node)
  help                  Print this text
";

fn main() -> ExitCode {
    match parse(env::args().skip(1)).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error}");
            error.exit_code()
        }
    }
}

#[derive(Debug, PartialEq)]
enum Action {
    Test(Depth),
    RunTests(Vec<String>),
    Lint,
    Bench(Vec<String>),
    Callgrind(Baseline),
    Book,
    Model(&'static Model),
    GuestImage,
    Web,
    Help,
}

fn parse(args: impl IntoIterator<Item = String>) -> Result<Action, Error> {
    let mut args = args.into_iter();
    let command = args.next().unwrap_or_else(|| "help".to_owned());
    let rest: Vec<String> = args.collect();
    let flags: Vec<&str> = rest.iter().map(String::as_str).collect();
    let action = match (command.as_str(), flags.as_slice()) {
        ("help" | "-h" | "--help", [])
        | (
            "test" | "lint" | "callgrind" | "book" | "model" | "guest-image" | "web",
            ["-h" | "--help"],
        ) => Action::Help,
        ("test", []) => Action::Test(Depth::Usual),
        ("test", ["--nightly"]) => Action::Test(Depth::Nightly),
        ("run-tests", _) => Action::RunTests(rest),
        ("lint", []) => Action::Lint,
        ("bench", _) => Action::Bench(rest),
        ("callgrind", []) => Action::Callgrind(Baseline::Compare),
        ("callgrind", ["--bless"]) => Action::Callgrind(Baseline::Bless),
        ("book", []) => Action::Book,
        ("model", []) => Action::Model(Model::first()),
        ("model", [name]) => Action::Model(Model::named(name)?),
        ("guest-image", []) => Action::GuestImage,
        ("web", []) => Action::Web,
        ("help" | "test" | "lint" | "callgrind" | "book" | "model" | "guest-image" | "web", _) => {
            return Err(Error::Arguments { command, args: rest });
        }
        _ => return Err(Error::UnknownCommand(command)),
    };
    Ok(action)
}

fn run(action: Action) -> Result<(), Error> {
    match action {
        Action::Test(depth) => test::run(&root()?, depth),
        Action::RunTests(args) => run_tests::run(&root()?, &args),
        Action::Lint => lint::run(&root()?),
        Action::Bench(args) => bench::run(&root()?, args),
        Action::Callgrind(baseline) => callgrind::run(&root()?, baseline),
        Action::Book => book::run(&root()?),
        Action::Model(model) => model::run(&root()?, model),
        Action::GuestImage => guest_image::run(&root()?),
        Action::Web => web::run(&root()?),
        Action::Help => {
            print!("{HELP}");
            Ok(())
        }
    }
}

/// Returns the workspace root.
///
/// The path is read from the environment at run time, because a compiled-in path would be wrong if two checkouts share
/// a target directory.
fn root() -> Result<PathBuf, Error> {
    let package =
        env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).ok_or(Error::NotRunByCargo)?;
    package.parent().map(PathBuf::from).ok_or(Error::NotRunByCargo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expect: &Action) {
        assert_eq!(parse(line.split_whitespace().map(str::to_owned)).unwrap(), *expect);
    }

    #[track_caller]
    fn check_error(line: &str, expect: &str) {
        let error = parse(line.split_whitespace().map(str::to_owned)).unwrap_err();
        assert_eq!(error.to_string(), expect);
    }

    #[test]
    fn commands_are_parsed() {
        check("test", &Action::Test(Depth::Usual));
        check("test --nightly", &Action::Test(Depth::Nightly));
        check("lint", &Action::Lint);
        check("callgrind", &Action::Callgrind(Baseline::Compare));
        check("callgrind --bless", &Action::Callgrind(Baseline::Bless));
        check("book", &Action::Book);
        check("guest-image", &Action::GuestImage);
        check("web", &Action::Web);
        check("model", &Action::Model(Model::first()));
        check("model qwen2.5-coder-0.5b", &Action::Model(Model::first()));
    }

    #[test]
    fn help_is_the_default() {
        for line in ["", "help", "-h", "--help", "test --help", "lint -h"] {
            check(line, &Action::Help);
        }
    }

    #[test]
    fn bench_forwards_all_arguments() {
        check("bench", &Action::Bench(vec![]));
        check("bench fan --help", &Action::Bench(vec!["fan".to_owned(), "--help".to_owned()]));
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        check_error("tset", "unknown command `tset`; run `cargo xtask help` for a list");
        check_error(
            "lint --fast -x",
            "`lint` does not accept `--fast -x`; run `cargo xtask help` for its arguments",
        );
        check_error(
            "test --nightly --nightly",
            "`test` does not accept `--nightly --nightly`; run `cargo xtask help` for its arguments",
        );
    }
}
