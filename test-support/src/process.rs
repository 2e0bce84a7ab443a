//! Processes that end with a test.

use std::{
    env,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

/// A process that is killed when the value is dropped.
#[derive(Debug)]
pub struct Process(pub Child);

impl Process {
    /// Starts a process.
    ///
    /// # Panics
    ///
    /// Panics if the program cannot be started.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        match command.spawn() {
            Ok(child) => Self(child),
            Err(error) => panic!("cannot start {command:?}: {error}"),
        }
    }

    /// Starts a server that prints `listening on` and its URL on the first line of its output, and returns the URL.
    ///
    /// # Panics
    ///
    /// Panics if the program cannot be started, or if its first line is different.
    #[track_caller]
    pub fn start_server(command: &mut Command) -> (Self, String) {
        let mut process = Self::start(command.stdout(Stdio::piped()));
        let stdout = process.0.stdout.take().expect("the output is a pipe");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("the output is text");
        let Some(url) = line.trim().strip_prefix("listening on ") else {
            panic!("unexpected first line of the server: {line:?}")
        };
        (process, url.to_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Ignore errors, because the process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the path of an example program of a package. Cargo builds the examples of the package whose tests it runs;
/// if the program does not exist, the error says how to build it.
pub fn example(package: &str, name: &str) -> Result<PathBuf, String> {
    let test = env::current_exe().expect("a test can read its path");
    // The test is `target/<profile>/deps/<name>-<hash>`; examples are in `target/<profile>/examples`.
    let profile = test.ancestors().nth(2).expect("a test is in the target directory");
    let program = profile.join("examples").join(name);
    let build = format!("cargo build -p {package} --example {name}");
    let missing = format!("{} does not exist; run `{build}`", program.display());
    if program.is_file() { Ok(program) } else { Err(missing) }
}
