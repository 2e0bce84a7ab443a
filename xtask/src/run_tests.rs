//! `cargo xtask run-tests`: builds all tests in one step and runs several test programs at a time.
//!
//! `cargo test` runs test programs one after the other. Many test programs of this workspace mostly wait for emulated
//! VMs, browsers or servers, so running several at a time takes far less time even on two cores. cargo-nextest can also
//! run several at a time, but would have to be compiled first on every new machine.

use std::{
    collections::VecDeque,
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{self, Command, ExitStatus, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use crate::{error::Error, step::command};

/// Number of test programs that run at the same time. It is higher than the two cores of a small machine, because some
/// test programs mostly wait for VMs, browsers or timers.
const PARALLEL: usize = 3;

/// Packages whose tests take longest, because they start VMs, browsers, clusters and whole runs. Their test programs start
/// first, so that no core is idle at the end.
const SLOW_PACKAGES: [&str; 4] =
    ["sandbox-testkit", "consulting-graph", "graph-cluster", "graph-server"];

/// Runs all test programs of the workspace. `args` are Cargo's options that select features.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<(), Error> {
    let programs = build(root, args)?;
    let queue: Mutex<VecDeque<Job>> = Mutex::new(programs.iter().map(TestProgram::job).collect());
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..PARALLEL {
            scope.spawn(|| run_queue(&queue, &failed));
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failed.is_empty() { Ok(()) } else { Err(Error::FailedTests { programs: failed }) }
}

/// A command that runs tests.
struct Job {
    /// Name of the tests in the output.
    name: String,
    command: Command,
}

/// A compiled test program.
#[derive(Debug, PartialEq)]
struct TestProgram {
    path: PathBuf,
    /// Directory of the package, in which Cargo runs the program.
    package: PathBuf,
}

impl TestProgram {
    fn job(&self) -> Job {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package);
        Job { name: self.path.display().to_string(), command }
    }
}

fn build(root: &Path, args: &[String]) -> Result<Vec<TestProgram>, Error> {
    let mut cargo = command("cargo");
    cargo.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    cargo.args(args).current_dir(root).stderr(Stdio::inherit());
    let command = format!("cargo test --workspace --no-run {}", args.join(" "));
    let output = match cargo.output() {
        Ok(output) => output,
        Err(source) => return Err(Error::Start { command, source }),
    };
    if !output.status.success() {
        return Err(Error::Failed { command });
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut programs: Vec<TestProgram> = messages.lines().filter_map(parse_artifact).collect();
    programs.sort_by_key(|program| {
        SLOW_PACKAGES.iter().position(|it| program.package.ends_with(it)).unwrap_or(usize::MAX)
    });
    Ok(programs)
}

/// Parses one of Cargo's JSON messages. Returns `None` unless it announces a test program.
fn parse_artifact(line: &str) -> Option<TestProgram> {
    let is_test = line.split_once("\"profile\":{")?.1.split_once('}')?.0.contains("\"test\":true");
    let string = |key: &str| {
        let (_, rest) = line.split_once(&format!("\"{key}\":\""))?;
        Some(PathBuf::from(rest.split_once('"')?.0))
    };
    let package = string("manifest_path")?.parent()?.to_owned();
    is_test.then_some(TestProgram { path: string("executable")?, package })
}

fn run_queue(queue: &Mutex<VecDeque<Job>>, failed: &Mutex<Vec<String>>) {
    loop {
        let Some(Job { name, command }) = lock(queue).pop_front() else { return };
        let start = Instant::now();
        let outcome = run_to_file(command);
        let mut failed = lock(failed);
        println!("\n     Running {name}");
        match outcome {
            Ok((status, output)) => {
                print!("{output}");
                println!("     took {:.1} s", start.elapsed().as_secs_f64());
                if !status.success() {
                    failed.push(name);
                }
            }
            Err(error) => {
                println!("cannot start the program: {error}");
                failed.push(name);
            }
        }
    }
}

/// Runs a command and returns its status and its output. The output goes to a file: if it went to a pipe, this function
/// would wait for all processes that a failed test has left behind, because they hold the pipe open.
fn run_to_file(mut command: Command) -> io::Result<(ExitStatus, String)> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = env::temp_dir().join(format!("xtask-tests-{}-{number}", process::id()));
    // An earlier process with the same id may have been killed before it removed its file.
    let _ = fs::remove_file(&path);
    let file = File::options().create_new(true).append(true).open(&path)?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let status = command.status();
    let output = fs::read(&path).map(|it| String::from_utf8_lossy(&it).into_owned());
    let _ = fs::remove_file(&path);
    Ok((status?, output?))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_are_left_behind_do_not_delay_the_result() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo $!; echo problem >&2; exit 3"]);
        let (status, output) = run_to_file(command).unwrap();
        assert_eq!(status.code(), Some(3));
        let (left, rest) = output.split_once('\n').unwrap();
        assert_eq!(rest, "problem\n");
        // Not every system has a program `kill`, but every shell has the command.
        assert!(Command::new("sh").args(["-c", "kill $0", left]).status().unwrap().success());
    }

    #[test]
    fn test_programs_are_found_in_cargo_messages() {
        let message = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/llm/Cargo.toml","target":{{"name":"it","test":true}},"profile":{{"opt_level":"0","test":{test}}},"executable":{executable},"fresh":true}}"#
            )
        };
        let program = TestProgram { path: "/w/target/it-1".into(), package: "/w/llm".into() };
        assert_eq!(parse_artifact(&message(true, "\"/w/target/it-1\"")), Some(program));
        assert_eq!(parse_artifact(&message(false, "\"/w/target/consulting\"")), None);
        assert_eq!(parse_artifact(&message(true, "null")), None);
        assert_eq!(parse_artifact(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
