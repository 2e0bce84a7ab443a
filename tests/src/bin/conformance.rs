//! Runs conformance cases on the engine: `conformance [--saver KIND] [--case ID] [-v] FILE.jsonl...`.
#![expect(clippy::print_stdout, reason = "a report on stdout is what the program is for")]

use std::{env, path::PathBuf, process::ExitCode};

use graph_tests::{Case, ReadError, SaverKind, compare, read, run};
use serde_json::Value;

fn main() -> ExitCode {
    let Some(wanted) = Wanted::from_args(env::args().skip(1)) else {
        eprintln!(
            "usage: conformance [--saver memory|sqlite|postgres] [--case ID] [-v] FILE.jsonl..."
        );
        return ExitCode::FAILURE;
    };
    match report(&wanted) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// What the command line asks for.
#[derive(Default)]
struct Wanted {
    files: Vec<PathBuf>,
    saver: SaverKind,
    case: Option<String>,
    verbose: bool,
}

impl Wanted {
    fn from_args(mut args: impl Iterator<Item = String>) -> Option<Self> {
        let mut wanted = Self::default();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--saver" => wanted.saver = args.next()?.parse().ok()?,
                "--case" => wanted.case = Some(args.next()?),
                "-v" => wanted.verbose = true,
                other if other.starts_with('-') => return None,
                file => wanted.files.push(PathBuf::from(file)),
            }
        }
        (!wanted.files.is_empty()).then_some(wanted)
    }
}

/// Runs what is wanted, and says whether all was equal.
fn report(wanted: &Wanted) -> Result<bool, ReadError> {
    let (mut n_cases, mut n_equal) = (0, 0);
    for file in &wanted.files {
        for case in read(file)? {
            if wanted.case.as_ref().is_none_or(|it| *it == case.id) {
                n_cases += 1;
                n_equal += usize::from(is_equal(&case, wanted));
            }
        }
    }
    println!("{n_cases} cases, {n_equal} equal");
    Ok(n_cases == n_equal)
}

fn is_equal(case: &Case, wanted: &Wanted) -> bool {
    let got = match run(case, wanted.saver) {
        Ok(got) => got,
        Err(gave_up) => {
            println!("{}: {}\n  {gave_up}\n", case.id, case.about);
            return false;
        }
    };
    let Some(difference) = compare(case, &got) else { return true };
    println!("{}: {}\n  {}\n", case.id, case.about, difference.to_string().replace('\n', "\n  "));
    if wanted.verbose {
        print_answers(case, &got, difference.call);
    }
    false
}

fn print_answers(case: &Case, got: &[Value], call: usize) {
    let text =
        |answer: Option<Value>| answer.map_or_else(|| "nothing".to_owned(), |it| format!("{it:#}"));
    println!("graph: {:#?}", case.graph);
    println!("call: {:#?}", case.script.get(call));
    println!("expected: {}", text(compare::answer(case, &case.expect, call)));
    println!("got: {}\n", text(compare::answer(case, got, call)));
}
