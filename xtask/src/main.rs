//! The project's own commands: `cargo xtask test`, `lint`, `bench`, `callgrind`, `model`, `guest-image` and `web`.
//!
//! Only std is used here: this crate is built before anything else, on every machine.

#![expect(clippy::print_stdout, reason = "a command line tool talks on standard output")]

use std::{env, path::PathBuf, process::ExitCode};

use crate::{callgrind::Baseline, error::Error, model::Model, test::Depth};

mod backports;
mod bench;
mod callgrind;
mod error;
mod guest_image;
mod lint;
mod model;
mod needs;
mod peers;
mod step;
mod test;
mod web;

const HELP: &str = "\
Usage: cargo xtask COMMAND

  test [--nightly]      every check that CI makes; PostgreSQL and Chromium are installed where it may,
                        servers for the tests of models are fetched into the target folder;
                        --nightly: with the long property tests, and all tests of local models
  lint                  the quick part of it: format, clippy, documentation
  bench [ARGS...]       the measurements; ARGS go to the bench program
  callgrind [--bless]   counts instructions and compares them with benches/callgrind.txt;
                        --bless: writes that file instead
  model [NAME]          fetches a small real model into the target folder, for the tests of local models,
                        and prints where it is
  guest-image           builds the agents, the kernel and the images that micro VMs start; needs Debian's apt
  web                   builds the page of `consulting serve` from its source; needs Node
  help                  this text
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
    Lint,
    Bench(Vec<String>),
    Callgrind(Baseline),
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
        | ("test" | "lint" | "callgrind" | "model" | "guest-image" | "web", ["-h" | "--help"]) => {
            Action::Help
        }
        ("test", []) => Action::Test(Depth::Usual),
        ("test", ["--nightly"]) => Action::Test(Depth::Nightly),
        ("lint", []) => Action::Lint,
        ("bench", _) => Action::Bench(rest),
        ("callgrind", []) => Action::Callgrind(Baseline::Compare),
        ("callgrind", ["--bless"]) => Action::Callgrind(Baseline::Bless),
        ("model", []) => Action::Model(Model::first()),
        ("model", [name]) => Action::Model(Model::named(name)?),
        ("guest-image", []) => Action::GuestImage,
        ("web", []) => Action::Web,
        ("help" | "test" | "lint" | "callgrind" | "model" | "guest-image" | "web", _) => {
            return Err(Error::Arguments { command, args: rest });
        }
        _ => return Err(Error::UnknownCommand(command)),
    };
    Ok(action)
}

fn run(action: Action) -> Result<(), Error> {
    match action {
        Action::Test(depth) => test::run(&root()?, depth),
        Action::Lint => lint::run(&root()?),
        Action::Bench(args) => bench::run(&root()?, args),
        Action::Callgrind(baseline) => callgrind::run(&root()?, baseline),
        Action::Model(model) => model::run(&root()?, model),
        Action::GuestImage => guest_image::run(&root()?),
        Action::Web => web::run(&root()?),
        Action::Help => {
            print!("{HELP}");
            Ok(())
        }
    }
}

/// Finds the workspace.
///
/// It asks at run time: a path fixed at build time is wrong where two checkouts share a target folder.
fn root() -> Result<PathBuf, Error> {
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).ok_or(Error::NotByCargo)?;
    package.parent().map(PathBuf::from).ok_or(Error::NotByCargo)
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
    fn commands() {
        check("test", &Action::Test(Depth::Usual));
        check("test --nightly", &Action::Test(Depth::Nightly));
        check("lint", &Action::Lint);
        check("callgrind", &Action::Callgrind(Baseline::Compare));
        check("callgrind --bless", &Action::Callgrind(Baseline::Bless));
        check("guest-image", &Action::GuestImage);
        check("web", &Action::Web);
        check("model", &Action::Model(Model::first()));
        check("model qwen2.5-coder-0.5b", &Action::Model(Model::first()));
    }

    #[test]
    fn help() {
        for line in ["", "help", "-h", "--help", "test --help", "lint -h"] {
            check(line, &Action::Help);
        }
    }

    #[test]
    fn bench_passes_everything_on() {
        check("bench", &Action::Bench(vec![]));
        check("bench fan --help", &Action::Bench(vec!["fan".to_owned(), "--help".to_owned()]));
    }

    #[test]
    fn mistakes() {
        check_error("tset", "there is no command `tset`; `cargo xtask help` lists them");
        check_error(
            "lint --fast -x",
            "`lint` does not take `--fast -x`; `cargo xtask help` says what it takes",
        );
        check_error(
            "test --nightly --nightly",
            "`test` does not take `--nightly --nightly`; `cargo xtask help` says what it takes",
        );
    }
}
