//! Runs commands one after the other and prints a summary.

use std::{
    env, fmt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::error::Error;

/// Runs the steps in order and stops at the first failure.
pub(crate) fn run_all(root: &Path, plan: &Plan) -> Result<(), Error> {
    let mut durations = vec![];
    let outcome = plan.steps.iter().try_for_each(|step| {
        durations.push(step.run(root)?);
        Ok(())
    });
    print!("\n{}", summary(plan, &durations));
    outcome
}

/// Selects which tests are run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Depth {
    Usual,
    /// All tests, including long property tests, tests that kill processes, and tests with local models.
    Nightly,
}

/// Steps to run, and checks that cannot run on this machine.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    pub(crate) skipped: Vec<Skipped>,
}

/// A check that is skipped because its tool is missing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Skipped {
    pub(crate) title: &'static str,
    pub(crate) fix: &'static str,
    /// Returns whether the tool is available now. Called after all steps, because a step may have installed the tool.
    pub(crate) is_available: fn() -> bool,
}

impl Skipped {
    /// Creates an entry for a check whose tool is not installed by any step.
    pub(crate) const fn new(title: &'static str, fix: &'static str) -> Self {
        Self { title, fix, is_available: || false }
    }
}

/// One command to run, usually cargo.
#[derive(Debug)]
pub(crate) struct Step {
    title: String,
    env: Vec<(&'static str, &'static str)>,
    program: Program,
    args: Vec<String>,
}

#[derive(Debug)]
enum Program {
    /// A program that is installed on the machine.
    Installed(&'static str),
    /// A program that an earlier step has built. The path is relative to the directory of the xtask program.
    Built(String),
}

impl Program {
    fn path(&self) -> PathBuf {
        match self {
            Self::Installed(name) => name.into(),
            Self::Built(name) => env::current_exe().unwrap_or_default().with_file_name(name),
        }
    }
}

impl Step {
    /// Creates a step. `line` contains the arguments, separated by spaces.
    pub(crate) fn new(title: impl Into<String>, program: &'static str, line: &str) -> Self {
        let args = line.split_whitespace().map(str::to_owned).collect();
        Self { title: title.into(), env: vec![], program: Program::Installed(program), args }
    }

    /// Creates a step that runs a program that an earlier step has built. `cargo run` would build the program
    /// again, because the features of its dependencies differ if only one package is selected.
    pub(crate) fn built(title: impl Into<String>, program: &str, line: &str) -> Self {
        let program = Program::Built(program.to_owned());
        Self { program, ..Self::new(title, "", line) }
    }

    pub(crate) fn cargo(title: impl Into<String>, line: &str) -> Self {
        Self::new(title, "cargo", line)
    }

    pub(crate) fn env(mut self, key: &'static str, value: &'static str) -> Self {
        self.env.push((key, value));
        self
    }

    /// Appends arguments, which may contain spaces.
    pub(crate) fn args(mut self, args: impl IntoIterator<Item = String>) -> Self {
        self.args.extend(args);
        self
    }

    pub(crate) fn run(&self, root: &Path) -> Result<Duration, Error> {
        println!("\n==> {}\n    {self}", self.title);
        let start = Instant::now();
        let status = Command::new(self.program.path())
            .args(&self.args)
            .envs(self.env.iter().copied())
            .current_dir(root)
            .status()
            .map_err(|source| Error::Start { command: self.to_string(), source })?;
        if status.success() {
            Ok(start.elapsed())
        } else {
            Err(Error::Failed { command: self.to_string() })
        }
    }
}

/// Formats the command as a shell command line.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, value) in &self.env {
            write!(f, "{key}={} ", quoted(value))?;
        }
        match &self.program {
            Program::Installed(name) => write!(f, "{name}")?,
            Program::Built(name) => write!(f, "target/debug/{name}")?,
        }
        self.args.iter().try_for_each(|arg| write!(f, " {}", quoted(arg)))
    }
}

fn quoted(word: &str) -> String {
    let plain = |it: char| it.is_ascii_alphanumeric() || "-_=./,:@+".contains(it);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Formats the result of each step. `durations` contains the durations of the successful steps. If there are more steps
/// than durations, the first step without a duration failed, and the steps after it did not run.
fn summary(plan: &Plan, durations: &[Duration]) -> String {
    let mut text = "Summary\n".to_owned();
    for (step_idx, step) in plan.steps.iter().enumerate() {
        let outcome = match durations.get(step_idx) {
            Some(duration) => format!("ok      {:>12}", human(*duration)),
            None if step_idx == durations.len() => "FAILED              ".to_owned(),
            None => "not run             ".to_owned(),
        };
        text += &format!("  {outcome}  {}\n", step.title);
    }
    if durations.len() == plan.steps.len() {
        text += &format!("  all     {:>12}\n", human(durations.iter().sum()));
    }
    let skipped = plan.skipped.iter().filter(|it| !(it.is_available)());
    for (skipped_idx, it) in skipped.enumerate() {
        text += if skipped_idx == 0 { "Skipped\n" } else { "" };
        text += &format!("  {}: {}\n", it.title, it.fix);
    }
    text
}

fn human(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    }
}

/// Returns the standard output of a command, without surrounding white space. Returns `None` if the command fails.
pub(crate) fn output_of(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns whether a command succeeds. Prints nothing.
pub(crate) fn succeeds(program: &str, args: &[&str]) -> bool {
    output_of(program, args).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            steps: ["format", "clippy", "tests"].map(|it| Step::cargo(it, it)).into(),
            skipped: vec![
                Skipped { is_available: || true, ..Skipped::new("installed later", "nothing") },
                Skipped::new("licences", "cargo install it"),
            ],
        }
    }

    #[test]
    fn steps_are_printed_as_shell_commands() {
        let step = Step::cargo("", "doc  --no-deps").env("RUSTDOCFLAGS", "-D warnings");
        let step = step.args(["it's".to_owned(), String::new()]);
        assert_eq!(
            step.to_string(),
            r"RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'it'\''s' ''"
        );
    }

    #[test]
    fn steps_can_run_any_program() {
        assert_eq!(Step::new("", "sh", "-c true").to_string(), "sh -c true");
        assert!(Step::new("", "sh", "-c true").run(Path::new(".")).is_ok());
        assert!(Step::new("", "sh", "-c false").run(Path::new(".")).is_err());
    }

    #[test]
    fn built_programs_are_found_beside_this_one() {
        let own = env::current_exe().unwrap();
        let own = own.file_name().unwrap().to_string_lossy();
        let step = Step::built("", &own, "--list");
        assert_eq!(step.to_string(), format!("target/debug/{own} --list"));
        assert!(step.run(Path::new(".")).is_ok());
        assert!(Step::built("", "no-such-program", "").run(Path::new(".")).is_err());
    }

    #[test]
    fn summary_lists_all_durations() {
        let durations = [40, 1_250, 125_000].map(Duration::from_millis);
        let expect = "\
Summary
  ok             0.0 s  format
  ok             1.2 s  clippy
  ok        2 min 05 s  tests
  all       2 min 06 s
Skipped
  licences: cargo install it
";
        assert_eq!(summary(&plan(), &durations), expect);
    }

    #[test]
    fn summary_marks_the_failed_step() {
        let expect = "\
Summary
  ok             1.0 s  format
  FAILED                clippy
  not run               tests
Skipped
  licences: cargo install it
";
        assert_eq!(summary(&plan(), &[Duration::from_secs(1)]), expect);
    }
}
