//! A tool that runs commands.

mod allowed_commands;
mod executor;
mod sessions;
mod split;

use std::sync::Arc;

use async_trait::async_trait;
use graph_core::{Context, JsonFieldKind, NodeError};
use serde_json::{Map, Value, json};

use super::hooks::{Hooks, Middleware};
use crate::{
    AgentError, AgentState,
    command::Update,
    id::new_id,
    message::{Status, ToolCall, ToolMessage},
    state::StateField,
    tool::{Tool, ToolOutput, ToolRuntime},
};
use sessions::{Sessions, SharedSession};

pub use allowed_commands::AllowedCommands;
pub use executor::{CommandExecutor, CommandResult, CommandSession};

/// Name of the field that holds the id of the run's session.
const SESSION: &str = "shell_session";

/// Gives the model the tool `shell`, which runs commands through a [`CommandExecutor`].
///
/// All commands of a run share a session, so the working directory of one command is that of the next. The session
/// starts with the first command and ends with the run. With the argument `restart`, the model starts over with a new
/// session. A command that exceeds the time limit of the executor ends the session, and its result says so. Parallel
/// calls run one after the other. A run that is resumed by another process continues in a new session.
///
/// There is no executor that passes commands to a shell of the host: a model would then act with all permissions of the
/// program. Results are marked as [untrusted](Tool::untrusted), unless [`trusted`](Self::trusted) is set.
///
/// ```
/// use graph_agents::middleware::{AllowedCommands, Shell};
///
/// # fn main() -> std::io::Result<()> {
/// let commands = AllowedCommands::new(std::env::temp_dir(), ["ls", "wc"])?;
/// let shell = Shell::new(commands);
/// # let _ = shell;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Shell {
    executor: Arc<dyn CommandExecutor>,
    startup: Vec<String>,
    shutdown: Vec<String>,
    max_lines: usize,
    trusted: bool,
    sessions: Sessions,
}

impl Shell {
    /// Creates the middleware.
    pub fn new(executor: impl CommandExecutor + 'static) -> Self {
        Self {
            executor: Arc::new(executor),
            startup: Vec::new(),
            shutdown: Vec::new(),
            max_lines: 100,
            trusted: false,
            sessions: Sessions::default(),
        }
    }

    /// Sets the maximum number of lines that the model sees of an output. The default is 100.
    #[must_use]
    pub fn max_lines(mut self, lines: usize) -> Self {
        self.max_lines = lines;
        self
    }

    /// Sets commands that run at the start of each session. If one fails, the agent's run fails.
    #[must_use]
    pub fn startup<C: Into<String>>(mut self, commands: impl IntoIterator<Item = C>) -> Self {
        self.startup = commands.into_iter().map(Into::into).collect();
        self
    }

    /// Sets commands that run when the agent has finished, if a session was started. Failures are ignored.
    #[must_use]
    pub fn shutdown<C: Into<String>>(mut self, commands: impl IntoIterator<Item = C>) -> Self {
        self.shutdown = commands.into_iter().map(Into::into).collect();
        self
    }

    /// Does not mark results as untrusted data. Use it if the commands print only data of your own.
    #[must_use]
    pub fn trusted(mut self) -> Self {
        self.trusted = true;
        self
    }

    async fn call(
        &self,
        args: &Map<String, Value>,
        runtime: &ToolRuntime,
    ) -> Result<ToolOutput, NodeError> {
        let session = match session_id(runtime.state()) {
            Some(id) => self.sessions.get(&id),
            // The tool was called outside of an agent.
            None => SharedSession::default(),
        };
        let call = runtime.call();
        let restarts = args.get("restart").and_then(Value::as_bool).unwrap_or_default();
        let command = args.get("command").and_then(Value::as_str);
        let message = match command {
            _ if restarts => {
                close(&session, &[]).await;
                ToolMessage::success(call, "The next command runs in a new session.")
            }
            Some(command) => self.to_message(call, &self.execute(&session, command).await?),
            None => ToolMessage::error(call, "Set `command` to a command, or `restart` to true."),
        };
        Ok(ToolOutput::Message(message))
    }

    /// Executes a command in a session, which is started first if necessary.
    async fn execute(
        &self,
        session: &SharedSession,
        command: &str,
    ) -> Result<CommandResult, NodeError> {
        let mut slot = session.lock().await;
        // If the command fails or is cancelled, the state of the session is unknown, and the session is dropped.
        let mut open = match slot.take() {
            Some(open) => open,
            None => self.start().await?,
        };
        let result = open.execute(command).await?;
        match result.session_ended {
            true => open.close().await,
            false => *slot = Some(open),
        }
        Ok(result)
    }

    async fn start(&self) -> Result<Box<dyn CommandSession>, NodeError> {
        let mut session = self.executor.start().await?;
        for command in &self.startup {
            let result = session.execute(command).await?;
            if result.exit_code != Some(0) {
                session.close().await;
                let output = first_lines(&result.output, self.max_lines);
                let problem = format!("the startup command `{command}` failed: {output}");
                return Err(AgentError::named("RuntimeError", problem).into());
            }
        }
        Ok(session)
    }

    fn to_message(&self, call: &ToolCall, result: &CommandResult) -> ToolMessage {
        let mut text = first_lines(&result.output, self.max_lines);
        if text.is_empty() {
            text.push_str("<no output>");
        }
        if let Some(code) = result.exit_code.filter(|it| *it != 0) {
            text.push_str(&format!("\n\nExit code: {code}"));
        }
        if result.session_ended {
            text.push_str("\n\nThe session has ended. The next command runs in a new session.");
        }
        let status = if result.exit_code == Some(0) { Status::Success } else { Status::Error };
        let artifact =
            json!({"exit_code": result.exit_code, "session_ended": result.session_ended});
        ToolMessage { status, artifact: Some(artifact), ..ToolMessage::success(call, text) }
    }
}

/// Ends a session, after it has executed these commands.
async fn close(session: &SharedSession, commands: &[String]) {
    let Some(mut open) = session.lock().await.take() else { return };
    for command in commands {
        // The run is over, so a failure has no consequences.
        let _ = open.execute(command).await;
    }
    open.close().await;
}

fn session_id(state: &AgentState) -> Option<String> {
    state.get_as(SESSION)
}

/// Shortens an output to its first lines.
fn first_lines(output: &str, max: usize) -> String {
    let total = output.lines().count();
    if total <= max {
        return output.to_owned();
    }
    let lines: Vec<_> = output.lines().take(max).collect();
    format!("{}\n[output truncated: the first {max} of {total} lines are shown]", lines.join("\n"))
}

#[async_trait]
impl Middleware for Shell {
    fn name(&self) -> String {
        "ShellToolMiddleware".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().before_agent([]).after_agent([])
    }

    fn state_fields(&self) -> Vec<StateField> {
        vec![StateField::private(SESSION, JsonFieldKind::Last)]
    }

    fn tools(&self) -> Vec<Tool> {
        let schema = json!({
            "properties": {
                "command": {"type": "string", "description": "The command to run."},
                "restart": {
                    "type": "boolean",
                    "description": "Ends the session instead. The next command runs in a new session.",
                },
            },
        });
        let description = "Runs a command. All commands share a session, so a change of the working directory lasts.";
        let shell = Arc::new(self.clone());
        let tool = Tool::dynamic("shell", description, schema, move |args, runtime| {
            let shell = shell.clone();
            async move { shell.call(&args, &runtime).await }
        });
        vec![if self.trusted { tool } else { tool.untrusted() }]
    }

    async fn before_agent(&self, _: &AgentState, _: &Context) -> Result<Option<Update>, NodeError> {
        Ok(Some(Update::new().set(SESSION, new_id())))
    }

    async fn after_agent(
        &self,
        state: &AgentState,
        _: &Context,
    ) -> Result<Option<Update>, NodeError> {
        if let Some(session) = session_id(state).and_then(|id| self.sessions.remove(&id)) {
            close(&session, &self.shutdown).await;
        }
        Ok(None)
    }
}
