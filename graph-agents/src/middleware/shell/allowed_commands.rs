//! Runs allowed programs on the host.

use std::{
    collections::BTreeSet,
    env, io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use async_trait::async_trait;
use graph_core::NodeError;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Command,
};

use super::{
    executor::{CommandExecutor, CommandResult, CommandSession},
    split::words,
};

/// Runs allowed programs on the host, without a shell. All other commands are refused.
///
/// The command line is split into words like in a shell; operators, redirections, variables and patterns are refused. A
/// program runs in the working directory, with an environment that contains only `PATH`, without input, and with a time
/// limit. `cd` changes the session's working directory, but not to a directory outside that of the executor. Sessions
/// have no variables, because environment variables can make a program execute other programs.
///
/// A program can still read and write all files that this process can, so allow only programs that are harmless with
/// any arguments: not `sh`, `env`, `find` or `git`, which start other programs. For untrusted programs, use
/// `SandboxCommands` of the module `code` (feature `sandbox`).
///
/// ```
/// use graph_agents::middleware::{AllowedCommands, CommandExecutor};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), graph_core::NodeError> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path();
/// std::fs::write(path.join("notes.txt"), "Buy tea.\n")?;
/// // Pass it to `Shell::new`.
/// let commands = AllowedCommands::new(path, ["cat", "wc"])?;
/// let mut session = commands.start().await?;
/// assert_eq!(session.execute("cat notes.txt").await?.output, "Buy tea.\n");
/// // Other programs and shell syntax are refused.
/// assert_eq!(session.execute("rm notes.txt").await?.exit_code, None);
/// assert_eq!(session.execute("cat notes.txt | wc").await?.exit_code, None);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct AllowedCommands {
    programs: BTreeSet<String>,
    directory: PathBuf,
    timeout: Duration,
}

/// Maximum number of bytes read from each output of a program.
const MAX_BYTES: u64 = 1_000_000;

impl AllowedCommands {
    /// Creates an executor that allows these programs and `cd`. Sessions start in the directory, which must exist.
    /// Programs are names without a path.
    pub fn new<N: Into<String>>(
        directory: impl AsRef<Path>,
        programs: impl IntoIterator<Item = N>,
    ) -> io::Result<Self> {
        Ok(Self {
            programs: programs.into_iter().map(Into::into).collect(),
            directory: directory.as_ref().canonicalize()?,
            timeout: Duration::from_secs(30),
        })
    }

    /// Sets the time limit of a command. The default is 30 seconds.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }
}

#[async_trait]
impl CommandExecutor for AllowedCommands {
    async fn start(&self) -> Result<Box<dyn CommandSession>, NodeError> {
        Ok(Box::new(Session { directory: self.directory.clone(), executor: self.clone() }))
    }
}

/// A session of allowed commands.
#[derive(Debug)]
struct Session {
    executor: AllowedCommands,
    /// Working directory of the next command.
    directory: PathBuf,
}

impl Session {
    fn change_directory(&mut self, args: &[String]) -> CommandResult {
        let root = &self.executor.directory;
        let (path, target) = match args {
            [] => (".", Ok(root.clone())),
            [path] => (path.as_str(), self.directory.join(path).canonicalize()),
            _ => return CommandResult::failed("Refused: `cd` takes exactly one directory."),
        };
        match target {
            Ok(target) if !target.starts_with(root) => CommandResult::failed(format!(
                "Refused: `{path}` is outside the directory in which the session started."
            )),
            Ok(target) if target.is_dir() => {
                self.directory = target;
                CommandResult::exited(0, "")
            }
            Ok(_) => CommandResult::exited(
                1,
                format!("Cannot change to `{path}`: it is not a directory"),
            ),
            Err(error) => CommandResult::exited(1, format!("Cannot change to `{path}`: {error}")),
        }
    }

    async fn run(&self, program: &str, args: &[String]) -> io::Result<CommandResult> {
        let mut child = Command::new(program)
            .args(args)
            .current_dir(&self.directory)
            .env_clear()
            .envs(env::var_os("PATH").map(|it| ("PATH", it)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (stdout, stderr, status) = tokio::try_join!(read(stdout), read(stderr), child.wait())?;
        let bytes = [stdout, stderr].concat();
        let output = String::from_utf8_lossy(&bytes).into_owned();
        Ok(CommandResult { output, exit_code: status.code(), session_ended: false })
    }
}

/// Reads an output to its end and keeps its first bytes.
async fn read(output: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let Some(mut output) = output else { return Ok(Vec::new()) };
    let mut bytes = Vec::new();
    (&mut output).take(MAX_BYTES).read_to_end(&mut bytes).await?;
    tokio::io::copy(&mut output, &mut tokio::io::sink()).await?;
    Ok(bytes)
}

#[async_trait]
impl CommandSession for Session {
    async fn execute(&mut self, command: &str) -> Result<CommandResult, NodeError> {
        let failed = |output: String| Ok(CommandResult::failed(output));
        let Some(words) = words(command) else {
            return failed(
                "Refused: the command contains shell syntax. Run one program with plain arguments."
                    .to_owned(),
            );
        };
        let [program, args @ ..] = words.as_slice() else {
            return failed("Refused: the command is empty.".to_owned());
        };
        if program == "cd" {
            return Ok(self.change_directory(args));
        }
        let AllowedCommands { programs, timeout, .. } = &self.executor;
        if !programs.contains(program) {
            let allowed: Vec<_> = programs.iter().map(String::as_str).collect();
            return failed(format!(
                "Refused: `{program}` is not allowed. Allowed programs: {}.",
                allowed.join(", ")
            ));
        }
        match tokio::time::timeout(*timeout, self.run(program, args)).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => failed(format!("Cannot run `{program}`: {error}")),
            Err(_) => Ok(CommandResult::ended_session(format!(
                "Error: the command did not finish within {timeout:?}."
            ))),
        }
    }
}
