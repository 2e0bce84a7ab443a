//! A server process that is stopped when the tests end, even if they are killed.

use std::{
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

/// Shell script that runs the program and kills it when the other end of the stdin pipe is closed. Destructors would
/// not suffice, because they do not run when the tests are killed, nor for statics when `main` returns.
const HOLD: &str = r#""$@" 2>&1 & cat >/dev/null; kill $!"#;

/// Maximum time until a program listens. It is long, because the first import of a large Python package and the first
/// read of a model take minutes on a slow machine.
const START_TIMEOUT: Duration = Duration::from_secs(900);

/// A running server.
#[derive(Debug)]
pub struct Server {
    /// Base URL, without a slash at the end.
    pub url: String,
    log: Arc<Mutex<String>>,
    shell: Child,
}

impl Server {
    /// Starts a program that prints the address it listens on.
    ///
    /// # Panics
    ///
    /// Panics if the program cannot be started or does not listen.
    pub fn start(program: &Command) -> Self {
        let (mut server, lines) = Self::spawn(program);
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = lines.recv_timeout(left) else {
                panic!("{program:?} did not start to listen; its output:\n{}", server.log());
            };
            if let Some((_, address)) = line.split_once("listening on http://") {
                server.url = format!("http://{}", address.trim());
                return server;
            }
        }
    }

    /// Starts a program that listens on a given address. Returns without waiting until the program is ready.
    ///
    /// # Panics
    ///
    /// Panics if the program cannot be started.
    pub fn start_at(program: &Command, url: String) -> Self {
        let (mut server, _) = Self::spawn(program);
        server.url = url;
        server
    }

    /// Returns the output of the program so far.
    pub fn log(&self) -> String {
        lock(&self.log).clone()
    }

    fn spawn(program: &Command) -> (Self, mpsc::Receiver<String>) {
        let mut command = Command::new("sh");
        command.args(["-c", HOLD, "hold"]).arg(program.get_program()).args(program.get_args());
        let variables = program.get_envs();
        command.envs(variables.filter_map(|(name, value)| Some((name, value?))));
        // The shell gets its own process group, so that it survives signals to the group of the tests, such as Ctrl-C,
        // and can then kill the program.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = command.spawn().expect("sh can be started");
        let output = BufReader::new(shell.stdout.take().expect("the output is a pipe"));
        let log = Arc::new(Mutex::new(String::new()));
        let (sender, lines) = mpsc::channel();
        let its_log = log.clone();
        thread::spawn(move || {
            for line in output.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                lock(&its_log).push_str(&format!("{line}\n"));
                // Ignore the error, because the receiver is dropped once the address is known.
                let _ = sender.send(line);
            }
        });
        (Self { url: String::new(), log, shell }, lines)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // Ignore errors, because the process may have exited already.
        let _ = self.shell.wait();
    }
}

fn lock(log: &Mutex<String>) -> MutexGuard<'_, String> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}
