//! Runs conformance cases on the engine:
//! `conformance [--eager [--min-ahead N]] [--saver KIND] [--remote-tasks] [--case ID] [-v] FILE.jsonl...`.
#![expect(clippy::print_stdout, reason = "prints its report to stdout")]

use std::{collections::BTreeMap, env, path::PathBuf, process::ExitCode};

use graph_tests::{
    Case, Execution, ReadError, SaverKind, compare,
    eager::{self, Equality},
    read, run,
};
use serde_json::Value;

fn main() -> ExitCode {
    let Some(options) = Options::from_args(env::args().skip(1)) else {
        eprintln!(
            "\
Usage: conformance [OPTIONS] FILE.jsonl...

Run conformance cases on the engine and compare the answers with the recorded ones.

  --eager       Build eager graphs, and print how many cases ran ahead
  --min-ahead N  With --eager, fail if fewer cases ran ahead
  --saver KIND  Store threads with this saver: memory, sqlite or postgres [default: memory]
  --remote-tasks  Serialise what tasks receive and return, as if they ran in another process
  --case ID     Run only the case with this id
  -v            Print the graph, the call and both answers of each difference; with --eager, how each case ran"
        );
        return ExitCode::FAILURE;
    };
    match report(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Default)]
struct Options {
    files: Vec<PathBuf>,
    eager: bool,
    /// Minimum number of cases that run ahead.
    min_ahead: usize,
    saver: SaverKind,
    execution: Execution,
    case: Option<String>,
    verbose: bool,
}

impl Options {
    fn from_args(mut args: impl Iterator<Item = String>) -> Option<Self> {
        let mut options = Self::default();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--eager" => options.eager = true,
                "--min-ahead" => options.min_ahead = args.next()?.parse().ok()?,
                "--saver" => options.saver = args.next()?.parse().ok()?,
                "--case" => options.case = Some(args.next()?),
                "--remote-tasks" => options.execution = Execution::RemoteTasks,
                "-v" => options.verbose = true,
                other if other.starts_with('-') => return None,
                file => options.files.push(PathBuf::from(file)),
            }
        }
        let is_valid = !options.files.is_empty() && (options.eager || options.min_ahead == 0);
        is_valid.then_some(options)
    }
}

/// Runs the selected cases. Returns whether all answers are equal to the recorded answers, and enough cases ran ahead.
fn report(options: &Options) -> Result<bool, ReadError> {
    let (mut n_cases, mut n_equal) = (0, 0);
    let mut equalities: BTreeMap<Equality, usize> = BTreeMap::new();
    for file in &options.files {
        for case in read(file)? {
            if options.case.as_ref().is_some_and(|it| *it != case.id) {
                continue;
            }
            n_cases += 1;
            if !options.eager {
                n_equal += usize::from(is_equal(&case, options));
            } else if let Some(equality) = equality(&case, options) {
                n_equal += 1;
                *equalities.entry(equality).or_default() += 1;
            }
        }
    }
    println!("{n_cases} cases, {n_equal} equal");
    for (equality, count) in &equalities {
        println!("{count:5} {equality}");
    }
    let n_ahead = equalities.get(&Equality::RanAhead).copied().unwrap_or_default();
    if n_ahead < options.min_ahead {
        println!("only {n_ahead} cases ran ahead; at least {} must", options.min_ahead);
    }
    Ok(n_cases == n_equal && n_ahead >= options.min_ahead)
}

fn equality(case: &Case, options: &Options) -> Option<Equality> {
    let equality = eager::check(case, options.saver);
    let report = |error: &eager::EagerError| {
        println!("{}: {}\n  {}\n", case.id, case.about, error.to_string().replace('\n', "\n  "));
    };
    let equality = equality.inspect_err(report).ok()?;
    if options.verbose {
        println!("{}: {equality}", case.id);
    }
    Some(equality)
}

fn is_equal(case: &Case, options: &Options) -> bool {
    let got = match run(case, options.saver, &options.execution) {
        Ok(got) => got,
        Err(error) => {
            println!("{}: {}\n  {error}\n", case.id, case.about);
            return false;
        }
    };
    let Some(difference) = compare(case, &got) else { return true };
    println!("{}: {}\n  {}\n", case.id, case.about, difference.to_string().replace('\n', "\n  "));
    if options.verbose {
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
