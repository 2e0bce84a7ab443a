//! The watchdog: a shell that makes, starts and stops a server, and clears all away once nobody gives orders.
//!
//! It alone touches the server's processes, so a start and the end of this process cannot overtake each other.

use std::{
    io::{self, BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use super::programs::{self, Programs, User};

/// A shell that listens on a pipe.
#[derive(Debug)]
pub(super) struct Watchdog {
    shell: Child,
    answers: BufReader<ChildStdout>,
}

impl Watchdog {
    /// Starts it for a server in `folder`, which it removes in the end.
    pub(super) fn start(programs: &Programs, folder: &Path, user: User) -> io::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", include_str!("watchdog.sh"), "watchdog"]);
        command.arg(programs.folder()).arg(folder).current_dir(folder);
        programs::without_settings(&mut command);
        user.apply(&mut command);
        // A signal to the group of the tests, by Ctrl-C say, is not for the one that clears up after them.
        command.process_group(0);
        // It holds no handle of ours but the pipes: who waits for the end of our output must not wait for it.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = command.spawn()?;
        let answers = shell.stdout.take().expect("the output was made a pipe");
        Ok(Self { shell, answers: BufReader::new(answers) })
    }

    /// Gives an order, and says whether it went well.
    pub(super) fn order(&mut self, order: &str) -> io::Result<bool> {
        let orders = self.shell.stdin.as_mut().expect("it is taken on drop alone");
        writeln!(orders, "{order}")?;
        let mut answer = String::new();
        match self.answers.read_line(&mut answer)? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "PostgreSQL's watchdog died")),
            _ => Ok(answer.trim() == "0"),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // The end of the orders is what it waits for. `wait` would close the pipe too; this says so.
        drop(self.shell.stdin.take());
        // Nothing is left to do should it have died.
        let _ = self.shell.wait();
    }
}
