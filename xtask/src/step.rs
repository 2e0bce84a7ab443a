//! A command that is a step of a check.

use std::{
    env,
    ffi::OsStr,
    fmt,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

use crate::error::Error;

/// Command that runs another command with low priority.
const NICE: [&str; 3] = ["nice", "-n", "19"];

/// One command to run, usually cargo.
#[derive(Debug)]
pub(crate) struct Step {
    title: String,
    env: Vec<(&'static str, &'static str)>,
    program: Program,
    args: Vec<String>,
    /// Texts that the standard output must contain.
    expected: Vec<String>,
    /// Whether the command runs with low priority, so that it hardly slows down other steps.
    low_priority: bool,
    /// Empty until the command has ended.
    outcome: OnceLock<Outcome>,
}

/// How a step ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    Succeeded(Duration),
    Failed {
        /// Names of the tests that failed, each with the first lines of its message.
        tests: Vec<String>,
    },
}

#[derive(Debug)]
enum Program {
    /// A program that is installed on the machine.
    Installed(&'static str),
    /// A program that an earlier step has built. The path is relative to the target directory.
    Built(String),
}

impl Program {
    fn path(&self) -> PathBuf {
        match self {
            Self::Installed(name) => name.into(),
            Self::Built(name) => target_dir().join(name),
        }
    }
}

impl Step {
    /// Creates a step. `line` contains the arguments, separated by spaces.
    pub(crate) fn new(title: impl Into<String>, program: &'static str, line: &str) -> Self {
        let args = line.split_whitespace().map(str::to_owned).collect();
        let program = Program::Installed(program);
        let (title, outcome) = (title.into(), OnceLock::new());
        Self { title, env: vec![], program, args, expected: vec![], low_priority: false, outcome }
    }

    /// Creates a step that runs a program that an earlier step has built, by its path in the target directory.
    /// `cargo run` would build the program again, because the features of its dependencies differ if only one package
    /// is selected.
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

    /// Fails the step unless its standard output contains these texts, in this order and on different lines.
    pub(crate) fn expect(mut self, texts: Vec<String>) -> Self {
        self.expected = texts;
        self
    }

    /// Runs the command with low priority, so that it hardly slows down steps that run at the same time.
    pub(crate) fn low_priority(self) -> Self {
        Self { low_priority: true, ..self }
    }

    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// Runs the command. Prints its output while it runs or, if the output is checked, when it has ended.
    pub(crate) fn run(&self, root: &Path) -> Result<(), Error> {
        if !self.expected.is_empty() {
            return self.run_quietly(root);
        }
        self.print_title();
        let start = Instant::now();
        let (status, stdout) = run_and_print(self.command(root));
        self.finish(start, status, &stdout)
    }

    /// Runs the command and prints its output when it has ended, so that commands can run at the same time.
    pub(crate) fn run_quietly(&self, root: &Path) -> Result<(), Error> {
        let start = Instant::now();
        let output = self.command(root).stdin(Stdio::null()).output();
        let _one_at_a_time = io::stdout().lock();
        self.print_title();
        let mut stdout = String::new();
        if let Ok(output) = &output {
            stdout = String::from_utf8_lossy(&output.stdout).into_owned();
            print!("{stdout}");
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
        }
        self.finish(start, output.map(|it| it.status), &stdout)
    }

    fn print_title(&self) {
        println!("\n==> {}\n    {self}", self.title);
    }

    fn command(&self, root: &Path) -> Command {
        let program = self.program.path();
        let mut command = if self.low_priority {
            let mut nice = command(NICE[0]);
            nice.args(&NICE[1..]).arg(program);
            nice
        } else {
            command(program)
        };
        command.args(&self.args).envs(self.env.iter().copied()).current_dir(root);
        command
    }

    /// Checks the output of the command and stores the outcome.
    fn finish(
        &self,
        start: Instant,
        status: io::Result<ExitStatus>,
        stdout: &str,
    ) -> Result<(), Error> {
        let result = match (status, first_missing(stdout, &self.expected)) {
            (Ok(status), None) if status.success() => Ok(()),
            (Ok(status), Some(text)) if status.success() => {
                Err(Error::MissingOutput { command: self.to_string(), text: text.clone() })
            }
            (Ok(_), _) => Err(Error::Failed { command: self.to_string() }),
            (Err(source), _) => Err(Error::Start { command: self.to_string(), source }),
        };
        let duration = start.elapsed();
        self.set_outcome(if result.is_ok() {
            Outcome::Succeeded(duration)
        } else {
            Outcome::Failed { tests: failed_tests(stdout) }
        });
        result
    }

    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.outcome.get()
    }

    /// Stores the outcome. Later outcomes of the same step are ignored.
    pub(crate) fn set_outcome(&self, outcome: Outcome) {
        let _first = self.outcome.set(outcome);
    }
}

/// Formats the command as a shell command line.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, value) in &self.env {
            write!(f, "{key}={} ", quoted(value))?;
        }
        if self.low_priority {
            write!(f, "{} ", NICE.join(" "))?;
        }
        match &self.program {
            Program::Installed(name) => write!(f, "{name}")?,
            Program::Built(name) => write!(f, "target/{name}")?,
        }
        self.args.iter().try_for_each(|arg| write!(f, " {}", quoted(arg)))
    }
}

/// Runs a command, prints its standard output while it runs, and also returns this output.
fn run_and_print(mut command: Command) -> (io::Result<ExitStatus>, String) {
    let mut stdout = String::new();
    let status = command.stdout(Stdio::piped()).spawn().and_then(|mut child| {
        for line in child.stdout.take().into_iter().flat_map(|it| BufReader::new(it).split(b'\n')) {
            let line = String::from_utf8_lossy(&line?).into_owned();
            println!("{line}");
            stdout += &line;
            stdout.push('\n');
        }
        child.wait()
    });
    (status, stdout)
}

/// Returns the names of the failed tests in the output of test programs, each with the position and the first line of
/// its panic.
fn failed_tests(stdout: &str) -> Vec<String> {
    let name =
        |line: &str| Some(line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?.to_owned());
    let panics: Vec<(&str, &str)> = stdout
        .lines()
        .zip(stdout.lines().skip(1))
        .filter(|(line, _)| line.contains(" panicked at "))
        .collect();
    let describe = |test: String| match panics
        .iter()
        .find(|(line, _)| line.contains(&format!("thread '{test}'")))
    {
        Some((line, message)) => {
            let position = line.rsplit_once(" panicked at ").map_or("", |(_, it)| it);
            format!("{test}: {position} {message}")
        }
        None => test,
    };
    stdout.lines().filter_map(name).map(describe).collect()
}

/// Returns the first expected text that is missing. Each text must occur in a line after that of the previous text.
fn first_missing<'a>(output: &str, expected: &'a [String]) -> Option<&'a String> {
    let mut lines = output.lines();
    expected.iter().find(|text| !lines.any(|line| line.contains(text.as_str())))
}

fn quoted(word: &str) -> String {
    let plain = |it: char| it.is_ascii_alphanumeric() || "-_=./,:@+".contains(it);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Returns the target directory of the build. This program is `target/debug/xtask`.
pub(crate) fn target_dir() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    program.ancestors().nth(2).unwrap_or(Path::new("target")).to_owned()
}

/// Returns a command without the variables that Cargo set for this program, such as `CARGO_MANIFEST_DIR`. Cargo runs
/// some build scripts again when these variables change, so a build by this program and a build from a shell would each
/// invalidate the artifacts of the other.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    let is_set_for_package = |name: &str| {
        ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|prefix| name.starts_with(prefix))
    };
    for (name, _) in
        env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_set_for_package))
    {
        command.env_remove(name);
    }
    command
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

    #[test]
    fn expected_texts_must_occur_in_order_on_different_lines() {
        let texts = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let missing =
            |expected: &[&str]| first_missing("one two\nthree\n", &texts(expected)).cloned();
        assert_eq!(missing(&[]), None);
        assert_eq!(missing(&["two", "three"]), None);
        for expected in [["three", "two"], ["one", "two"], ["one", "four"]] {
            assert_eq!(missing(&expected).as_deref(), Some(expected[1]));
        }
    }

    #[test]
    fn failed_tests_are_listed_with_their_messages() {
        let output = "\
test a::passes ... ok
test a::fails ... FAILED
test a::leaks ... FAILED

---- a::fails stdout ----

thread 'a::fails' (71) panicked at a.rs:3:5:
expected 1 run
";
        let step = Step::new("", "sh", "-c").args([format!("echo \"{output}\"; exit 1")]);
        assert!(step.run(Path::new(".")).is_err());
        let Some(Outcome::Failed { tests }) = step.outcome() else { panic!("{step:?}") };
        assert_eq!(*tests, ["a::fails: a.rs:3:5: expected 1 run", "a::leaks"]);
    }

    #[test]
    fn commands_do_not_inherit_the_package_of_this_program() {
        // Cargo sets `CARGO_MANIFEST_DIR` for tests too.
        let command = command("cargo");
        let mut removed = command.get_envs().filter(|(_, value)| value.is_none());
        assert!(removed.any(|(name, _)| name == "CARGO_MANIFEST_DIR"), "{command:?}");
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
    fn steps_with_low_priority_are_run_by_nice() {
        let step = Step::new("", "sh", "-c").args(["test $(nice) = 19".to_owned()]).low_priority();
        assert_eq!(step.to_string(), "nice -n 19 sh -c 'test $(nice) = 19'");
        assert!(step.run(Path::new(".")).is_ok());
    }

    #[test]
    fn steps_can_run_any_program() {
        assert_eq!(Step::new("", "sh", "-c true").to_string(), "sh -c true");
        assert!(Step::new("", "sh", "-c true").run(Path::new(".")).is_ok());
        assert!(Step::new("", "sh", "-c false").run(Path::new(".")).is_err());
    }

    #[test]
    fn built_programs_are_found_in_the_target_directory() {
        // This test program is in `target/debug/deps`, so `target_dir` returns `target/debug` here.
        let own = env::current_exe().unwrap();
        let own = own.file_name().unwrap().to_string_lossy();
        let step = Step::built("", &format!("deps/{own}"), "--list");
        assert_eq!(step.to_string(), format!("target/deps/{own} --list"));
        assert!(step.run_quietly(Path::new(".")).is_ok());
        assert!(Step::built("", "no-such-program", "").run_quietly(Path::new(".")).is_err());
    }
}
