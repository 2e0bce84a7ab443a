//! Runs agent cases: `agent-conformance [--case ID] [-v] FILE.jsonl...`.
#![expect(clippy::print_stdout, reason = "prints its report to stdout")]

use std::{collections::BTreeMap, env, io, path::PathBuf, process::ExitCode};

use graph_tests::agents::{AgentCase, differences, read, run};

const USAGE: &str = "\
Usage: agent-conformance [OPTIONS] FILE.jsonl...

Run agent cases on graph-agents and compare the answers with the recorded ones.

  --case ID  Run only the case with this id
  -v         Print all differences of a case, not only the first";

fn main() -> ExitCode {
    let Some(options) = Options::from_args(env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    match report(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot read the cases: {error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Default)]
struct Options {
    files: Vec<PathBuf>,
    case: Option<String>,
    verbose: bool,
}

impl Options {
    fn from_args(mut args: impl Iterator<Item = String>) -> Option<Self> {
        let mut options = Self::default();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--case" => options.case = Some(args.next()?),
                "-v" => options.verbose = true,
                other if other.starts_with('-') => return None,
                file => options.files.push(PathBuf::from(file)),
            }
        }
        (!options.files.is_empty()).then_some(options)
    }
}

/// Runs the selected cases. Returns whether all answers are equal to the recorded answers.
fn report(options: &Options) -> io::Result<bool> {
    let mut families: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for file in &options.files {
        for case in read(file)? {
            let case = match case {
                Ok(case) => case,
                Err(error) => {
                    println!("a line of {} is not a valid case: {error}", file.display());
                    families.entry("invalid".to_owned()).or_default().0 += 1;
                    continue;
                }
            };
            if options.case.as_ref().is_none_or(|it| *it == case.id) {
                let family = families.entry(case.family.clone()).or_default();
                family.0 += 1;
                family.1 += usize::from(is_equal(&case, options.verbose));
            }
        }
    }
    for (family, (cases, equal)) in &families {
        println!("{family}: {equal} of {cases} equal");
    }
    let total = |pick: fn(&(usize, usize)) -> usize| families.values().map(pick).sum::<usize>();
    let (cases, equal) = (total(|it| it.0), total(|it| it.1));
    println!("{cases} cases, {equal} equal");
    Ok(cases == equal)
}

fn is_equal(case: &AgentCase, verbose: bool) -> bool {
    let differences = match run(case) {
        Ok(answers) => differences(case, &answers),
        Err(problem) => vec![problem],
    };
    if !differences.is_empty() {
        let shown = if verbose { differences.len() } else { 1 };
        println!("{}: {}", case.id, case.about);
        for difference in &differences[..shown] {
            println!("  {}", difference.replace('\n', "\n  "));
        }
    }
    differences.is_empty()
}
