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

/// Packages whose tests take longest, because they start VMs, browsers, clusters and whole runs. Their test programs
/// start first, so that no core is idle at the end.
const SLOW_PACKAGES: [&str; 4] =
    ["sandbox-testkit", "consulting-graph", "graph-cluster", "graph-server"];

/// Runs all test programs of the workspace. `args` are Cargo's options that select features.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<(), Error> {
    let programs = build(root, args)?;
    let queue: Mutex<VecDeque<Job>> = Mutex::new(programs.iter().map(TestProgram::job).collect());
    let results = Mutex::new(Results::default());
    thread::scope(|scope| {
        for _ in 0..PARALLEL {
            scope.spawn(|| run_queue(&queue, &results));
        }
    });
    let Results { failed, processor_times } =
        results.into_inner().unwrap_or_else(PoisonError::into_inner);
    print!("\n{}", most_expensive(processor_times));
    if failed.is_empty() { Ok(()) } else { Err(Error::FailedTests { programs: failed }) }
}

/// Results of the test programs that have ended.
#[derive(Debug, Default)]
struct Results {
    /// Names of the programs that failed.
    failed: Vec<String>,
    /// Seconds of CPU time and name of each program.
    processor_times: Vec<(f64, String)>,
}

/// Returns a list of the test programs that used the most CPU time. Unlike the duration, the CPU time does
/// not depend on what else runs on the machine.
fn most_expensive(mut programs: Vec<(f64, String)>) -> String {
    programs.sort_by(|a, b| b.0.total_cmp(&a.0));
    let total: f64 = programs.iter().map(|it| it.0).sum();
    let lines =
        programs.iter().take(10).map(|(seconds, name)| format!("{seconds:>7.1} s  {name}\n"));
    format!("CPU time: {total:.1} s, most of it in\n{}", lines.collect::<String>())
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
    /// Returns a number and a flag by which programs are sorted: slow packages first, and the unit tests of a package
    /// before its other tests.
    fn rank(&self) -> (usize, bool) {
        let package = SLOW_PACKAGES.iter().position(|it| self.package.ends_with(it));
        let name = self.package.file_name().unwrap_or_default().to_string_lossy().replace('-', "_");
        let file = self.path.file_name().unwrap_or_default().to_string_lossy();
        let has_unit_tests = file.rsplit_once('-').is_some_and(|it| it.0 == name);
        (package.unwrap_or(SLOW_PACKAGES.len()), !has_unit_tests)
    }

    fn job(&self) -> Job {
        let mut command = with_processor_time(&self.path);
        command.current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package);
        let package = self.package.file_name().unwrap_or_default().display();
        Job { name: format!("{package} ({})", self.path.display()), command }
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
    programs.sort_by_key(TestProgram::rank);
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

/// Returns a command that runs a program and then prints the CPU time that the program and its descendants used.
fn with_processor_time(program: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "\"$0\" \"$@\"; status=$?; times; exit $status"]).arg(program);
    command
}

/// Splits off the last two lines, which the shell's command `times` printed. The last one contains the user time and
/// the system time of the shell's children, such as `1m2.50s 0m0.75s`. Returns the rest, and the sum of these times in
/// seconds.
fn split_processor_time(output: &str) -> Option<(&str, f64)> {
    let seconds = |time: &str| -> Option<f64> {
        let (minutes, seconds) = time.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    let (output, children) = output.trim_end().rsplit_once('\n')?;
    let (output, _shell) = output.rsplit_once('\n')?;
    let (user, system) = children.split_once(' ')?;
    Some((output, seconds(user)? + seconds(system)?))
}

fn run_queue(queue: &Mutex<VecDeque<Job>>, results: &Mutex<Results>) {
    loop {
        let Some(Job { name, command }) = lock(queue).pop_front() else { return };
        let start = Instant::now();
        let outcome = run_to_file(command);
        let mut results = lock(results);
        println!("\n     Running {name}");
        match outcome {
            Ok((status, output)) => {
                let (output, seconds) = split_processor_time(&output).unwrap_or((&output, 0.0));
                let elapsed = start.elapsed().as_secs_f64();
                println!("{output}\n     took {elapsed:.1} s and {seconds:.1} s of CPU time");
                if !status.success() {
                    results.failed.push(name.clone());
                }
                results.processor_times.push((seconds, name));
            }
            Err(error) => {
                println!("cannot start the program: {error}");
                results.failed.push(name);
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
        // Not every system has a program `kill`, but `kill` is a built-in command of every shell.
        assert!(Command::new("sh").args(["-c", "kill $0", left]).status().unwrap().success());
    }

    #[test]
    fn processor_time_of_a_program_and_its_descendants_is_measured() {
        let mut command = with_processor_time(Path::new("sh"));
        let script = "sh -c 'i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done'; echo done; exit 3";
        command.args(["-c", script]);
        let (status, output) = run_to_file(command).unwrap();
        assert_eq!(status.code(), Some(3));
        let (output, seconds) = split_processor_time(&output).unwrap();
        assert_eq!(output, "done");
        assert!(seconds > 0.0, "{seconds}");
    }

    #[test]
    fn slow_packages_and_unit_tests_run_first() {
        let program = |package: &str, file: &str| TestProgram {
            path: Path::new("/w/target/debug/deps").join(file),
            package: Path::new("/w").join(package),
        };
        let mut programs = [
            program("llm", "it-1"),
            program("llm", "llm-1"),
            program("consulting-graph", "serve-1"),
            program("consulting-graph", "consulting_graph-1"),
        ];
        programs.sort_by_key(TestProgram::rank);
        let files = programs.iter().map(|it| it.path.file_name().unwrap().to_str().unwrap());
        let files: Vec<_> = files.collect();
        assert_eq!(files, ["consulting_graph-1", "serve-1", "llm-1", "it-1"]);
    }

    #[test]
    fn most_expensive_programs_are_listed_first() {
        let programs = vec![(1.25, "a".to_owned()), (70.0, "b".to_owned())];
        let expected = "CPU time: 71.2 s, most of it in\n   70.0 s  b\n    1.2 s  a\n";
        assert_eq!(most_expensive(programs), expected);
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
