//! Shell sessions in a sandbox.

use std::time::Duration;

use async_trait::async_trait;
use graph_core::NodeError;
use sandbox_vm::{ExecLimits, Image, Output, Program, Sandbox, Sandboxes, Spec, Status};

use crate::{
    AgentError,
    id::new_id,
    middleware::{CommandExecutor, CommandResult, CommandSession},
};

/// Starts the session script with the path of the file that holds the state of the session.
const START: &str = r#"exec sh -c "$0" "$HOME/.shell_session" "$1""#;

/// Restores the working directory and the variables of the previous command, executes the command, and stores them.
/// `set -a` exports all variables, so that `export -p` lists them.
const SCRIPT: &str = r#"
if [ -f "$0" ]; then . "$0"; cd "$PWD" 2>/dev/null || cd; fi
trap 'set -- "$?"; export -p > "$0"; exit "$1"' EXIT
set -a
eval "$1"
"#;

/// Runs the commands of a [`Shell`](crate::middleware::Shell) in a sandboxed shell.
///
/// Each session has its own sandbox, which is deleted when the session ends. The working directory, the variables and
/// the files are kept from one command to the next; functions, aliases and background processes are not. A command that
/// exceeds a limit ends the session.
///
/// ```
/// use graph_agents::{
///     Agent, AiMessage, ScriptedModel, ToolCall, code::SandboxCommands, middleware::Shell,
/// };
/// use sandbox_vm::{Isolation, Sandboxes, backend::InProcess, guest};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// // Not isolated, so that the example runs everywhere. For untrusted programs, use `Jail` or a stronger back end.
/// let sandboxes = Sandboxes::builder()
///     .backend(InProcess::new(guest::Agent::new))
///     .isolation(Isolation::Off)
/// #   .state_dir(dir.path())
///     .open()
///     .await?;
/// let shell = |command: &str, id: &str| {
///     AiMessage::new("").tool_call(ToolCall::new("shell", json!({"command": command}), id))
/// };
/// let model = ScriptedModel::new([
///     shell("mkdir notes && cd notes && city=Rome", "call-1"),
///     shell("basename $PWD; echo $city", "call-2"),
///     AiMessage::new("Done."),
/// ]);
/// let agent = Agent::new(model).middleware(Shell::new(SandboxCommands::new(sandboxes))).compile()?;
/// let outcome = agent.run("Take notes about Rome.").await?;
/// assert!(outcome.messages[4].text().contains("notes\nRome\n"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct SandboxCommands {
    sandboxes: Sandboxes,
    limits: ExecLimits,
    lifetime: Duration,
}

impl SandboxCommands {
    /// Creates the executor. `sandboxes` must have a back end with a shell.
    pub fn new(sandboxes: Sandboxes) -> Self {
        let limits = ExecLimits { output: 64 << 10, ..ExecLimits::default() };
        Self { sandboxes, limits, lifetime: Duration::from_secs(3600) }
    }

    /// Sets the limits of each command. The default is 30 seconds and 64 KiB of output.
    #[must_use]
    pub fn limits(mut self, limits: ExecLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the maximum duration of a session. The default is one hour.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }
}

#[async_trait]
impl CommandExecutor for SandboxCommands {
    async fn start(&self) -> Result<Box<dyn CommandSession>, NodeError> {
        let spec = Spec::new(format!("shell-{}", new_id())).image(Image::Python);
        let starting = self.sandboxes.create_if_not_exists(spec.lifetime(self.lifetime));
        let sandbox = starting.await.map_err(|error| {
            AgentError::named("SandboxError", format!("cannot start the shell: {error}"))
        })?;
        Ok(Box::new(Session { sandbox: Some(sandbox), limits: self.limits.clone() }))
    }
}

/// A session in a sandbox.
#[derive(Debug)]
struct Session {
    /// `None` after the session was closed.
    sandbox: Option<Sandbox>,
    limits: ExecLimits,
}

impl Drop for Session {
    /// Deletes the sandbox of a session that was not closed, because its run failed or was cancelled.
    fn drop(&mut self) {
        let (sandbox, runtime) = (self.sandbox.take(), tokio::runtime::Handle::try_current());
        if let (Some(sandbox), Ok(runtime)) = (sandbox, runtime) {
            runtime.spawn(async move { sandbox.delete().await });
        }
    }
}

#[async_trait]
impl CommandSession for Session {
    async fn execute(&mut self, command: &str) -> Result<CommandResult, NodeError> {
        let Some(sandbox) = &self.sandbox else {
            return Ok(CommandResult::ended_session("Error: the session is closed."));
        };
        let program = Program::new("sh").args(["-c", START, SCRIPT, command]);
        Ok(match sandbox.exec(program.limits(self.limits.clone())).await {
            Ok(output) => to_result(&output),
            Err(error) => {
                CommandResult::ended_session(format!("Error: the sandbox failed: {error}"))
            }
        })
    }

    async fn close(&mut self) {
        if let Some(sandbox) = &self.sandbox {
            sandbox.delete().await;
        }
        self.sandbox = None;
    }
}

fn to_result(output: &Output) -> CommandResult {
    let bytes = [output.stdout.as_slice(), &output.stderr].concat();
    let text = String::from_utf8_lossy(&bytes);
    match output.status {
        Status::Exited(code) => CommandResult::exited(code, text),
        Status::Killed(signal) => {
            CommandResult::failed(format!("{text}\n[killed by signal {signal}]"))
        }
        Status::Limit(limit) => CommandResult::ended_session(format!(
            "{text}\n[stopped: the command exceeded its limit: {limit}]"
        )),
        other => CommandResult::ended_session(format!("{text}\n[{other:?}]")),
    }
}
