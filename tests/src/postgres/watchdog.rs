//! The watchdog is a shell that initializes, starts and stops a server. It cleans up when its input ends.
//!
//! Only the watchdog controls the server's processes, so starting the server cannot race with the termination of
//! this process.

use std::{
    io::{self, BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use super::programs::{self, Programs, User};

/// The watchdog process, which reads commands from a pipe.
#[derive(Debug)]
pub(super) struct Watchdog {
    shell: Child,
    answers: BufReader<ChildStdout>,
}

impl Watchdog {
    /// Starts the watchdog for a server in `dir`. The watchdog deletes the directory when it ends.
    pub(super) fn start(programs: &Programs, dir: &Path, user: User) -> io::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", include_str!("watchdog.sh"), "watchdog"]);
        command.arg(programs.dir()).arg(dir).current_dir(dir);
        programs::clear_settings(&mut command);
        user.apply(&mut command);
        // Ctrl-C sends a signal to the process group of the tests. The watchdog must survive the signal in order to
        // clean up.
        command.process_group(0);
        // The watchdog inherits only pipes, so that a process that reads our output does not wait for the watchdog.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = command.spawn()?;
        let answers = shell.stdout.take().expect("stdout is a pipe");
        Ok(Self { shell, answers: BufReader::new(answers) })
    }

    /// Sends a command and returns whether it succeeded.
    pub(super) fn send_command(&mut self, command: &str) -> io::Result<bool> {
        let commands = self.shell.stdin.as_mut().expect("stdin is only taken on drop");
        writeln!(commands, "{command}")?;
        let mut answer = String::new();
        match self.answers.read_line(&mut answer)? {
            0 => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the PostgreSQL watchdog exited unexpectedly",
            )),
            _ => Ok(answer.trim() == "0"),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Closing the pipe ends the watchdog. `wait` would also close the pipe; closing it here makes this
        // explicit.
        drop(self.shell.stdin.take());
        // If the watchdog has died, there is nothing left to do.
        let _ = self.shell.wait();
    }
}
