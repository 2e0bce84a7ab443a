//! Steps: commands that run one after the other, with a summary at the end.

use std::{
    env, fmt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use crate::error::Error;

/// Runs the steps in order, up to the first that fails.
pub(crate) fn run_all(root: &Path, plan: &Plan) -> Result<(), Error> {
    let mut durations = vec![];
    let outcome = plan.steps.iter().try_for_each(|step| {
        durations.push(step.run(root)?);
        Ok(())
    });
    print!("\n{}", summary(plan, &durations));
    outcome
}

/// What is to be run, and what cannot be run on this machine.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    pub(crate) left_out: Vec<LeftOut>,
}

/// A step that this machine has not the tool for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeftOut {
    pub(crate) title: &'static str,
    pub(crate) install: &'static str,
    /// Whether a step has brought the tool after all, for one that may fail to. It is asked when all steps have run.
    pub(crate) unless: fn() -> bool,
}

impl LeftOut {
    /// What nothing brings.
    pub(crate) const fn new(title: &'static str, install: &'static str) -> Self {
        Self { title, install, unless: || false }
    }
}

/// One call of a program, which is nearly always cargo.
#[derive(Debug)]
pub(crate) struct Step {
    title: String,
    env: Vec<(&'static str, &'static str)>,
    program: Program,
    args: Vec<String>,
}

#[derive(Debug)]
enum Program {
    /// One that the machine has.
    Found(&'static str),
    /// One that a step before has built: its path in the folder that cargo puts this very program in.
    Built(String),
}

impl Program {
    fn path(&self) -> PathBuf {
        match self {
            Self::Found(name) => name.into(),
            Self::Built(name) => env::current_exe().unwrap_or_default().with_file_name(name),
        }
    }
}

impl Step {
    /// Makes a step from a line of arguments that are parted by blanks.
    pub(crate) fn new(title: impl Into<String>, program: &'static str, line: &str) -> Self {
        let args = line.split_whitespace().map(str::to_owned).collect();
        Self { title: title.into(), env: vec![], program: Program::Found(program), args }
    }

    /// A step of a program that a step before has built. To ask cargo for it would build it again: for one package alone
    /// the features of its dependencies are others than for all together.
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

    /// Adds arguments that may hold blanks themselves.
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

/// The command as one would type it into a shell.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, value) in &self.env {
            write!(f, "{key}={} ", quoted(value))?;
        }
        match &self.program {
            Program::Found(name) => write!(f, "{name}")?,
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

/// `durations` belong to the first steps; the step after them failed, and the rest never ran.
fn summary(plan: &Plan, durations: &[Duration]) -> String {
    let mut text = "Summary\n".to_owned();
    for (step_idx, step) in plan.steps.iter().enumerate() {
        let outcome = match durations.get(step_idx) {
            Some(duration) => format!("ok      {:>12}", human(*duration)),
            None if step_idx == durations.len() => "FAILED              ".to_owned(),
            None => "not reached         ".to_owned(),
        };
        text += &format!("  {outcome}  {}\n", step.title);
    }
    if durations.len() == plan.steps.len() {
        text += &format!("  all     {:>12}\n", human(durations.iter().sum()));
    }
    let left_out = plan.left_out.iter().filter(|it| !(it.unless)());
    for (left_out_idx, it) in left_out.enumerate() {
        text += if left_out_idx == 0 { "Not run here\n" } else { "" };
        text += &format!("  {}: install the tool by `{}`\n", it.title, it.install);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            steps: ["format", "clippy", "tests"].map(|it| Step::cargo(it, it)).into(),
            left_out: vec![
                LeftOut { unless: || true, ..LeftOut::new("what came after all", "nothing") },
                LeftOut::new("licences", "cargo install it"),
            ],
        }
    }

    #[test]
    fn a_step_reads_as_a_shell_line() {
        let step = Step::cargo("", "doc  --no-deps").env("RUSTDOCFLAGS", "-D warnings");
        let step = step.args(["it's".to_owned(), String::new()]);
        assert_eq!(
            step.to_string(),
            r"RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'it'\''s' ''"
        );
    }

    #[test]
    fn a_step_may_be_of_another_program() {
        assert_eq!(Step::new("", "sh", "-c true").to_string(), "sh -c true");
        assert!(Step::new("", "sh", "-c true").run(Path::new(".")).is_ok());
        assert!(Step::new("", "sh", "-c false").run(Path::new(".")).is_err());
    }

    #[test]
    fn a_built_program_lies_beside_this_one() {
        let own = env::current_exe().unwrap();
        let own = own.file_name().unwrap().to_string_lossy();
        let step = Step::built("", &own, "--list");
        assert_eq!(step.to_string(), format!("target/debug/{own} --list"));
        assert!(step.run(Path::new(".")).is_ok());
        assert!(Step::built("", "no-such-program", "").run(Path::new(".")).is_err());
    }

    #[test]
    fn summary_of_a_full_run() {
        let durations = [40, 1_250, 125_000].map(Duration::from_millis);
        let expect = "\
Summary
  ok             0.0 s  format
  ok             1.2 s  clippy
  ok        2 min 05 s  tests
  all       2 min 06 s
Not run here
  licences: install the tool by `cargo install it`
";
        assert_eq!(summary(&plan(), &durations), expect);
    }

    #[test]
    fn summary_after_a_failure() {
        let expect = "\
Summary
  ok             1.0 s  format
  FAILED                clippy
  not reached           tests
Not run here
  licences: install the tool by `cargo install it`
";
        assert_eq!(summary(&plan(), &[Duration::from_secs(1)]), expect);
    }
}
