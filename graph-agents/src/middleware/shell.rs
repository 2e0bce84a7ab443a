//! A tool that runs commands.

mod allowed_commands;
mod executor;
mod sessions;
mod split;

use std::sync::Arc;

use async_trait::async_trait;
use graph_core::{Context, NodeError};
use serde_json::{Map, Value, json};

use super::hooks::{Hooks, Middleware};
use crate::{
    AgentError, AgentState,
    command::Update,
    message::{Status, ToolCall, ToolMessage},
    tool::{Tool, ToolOutput, ToolRuntime},
};
use sessions::{Place, Sessions, SharedSession};

pub use allowed_commands::AllowedCommands;
pub use executor::{CommandExecutor, CommandResult, CommandSession};

/// Gives the model the tool `shell`, which runs commands through a [`CommandExecutor`].
///
/// All commands of a run share a session, so the working directory of one command is that of the next. The session
/// starts with the first command and ends with the run. With the argument `restart`, the model starts over with a new
/// session. A command that exceeds the time limit of the executor ends the session, and its result reports this.
/// Parallel calls of one message run one after the other, in any order.
///
/// A run that is interrupted keeps its session for an hour, and continues in it when it is resumed. After that, or if
/// another process or another compiled agent resumes the run, it continues in a new session, and the first result
/// reports this. The session of a run that fails or is cancelled ends with the command that fails or is cancelled, with
/// the next run of the thread, or after an hour. Agents that are compiled with clones of a `Shell` do not share
/// sessions.
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

    /// Does not mark results as untrusted data. Use it if the commands print only your own data.
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
        let session = self.sessions.get(&Place::of(runtime.context()));
        let call = runtime.call();
        let restarts = args.get("restart").and_then(Value::as_bool).unwrap_or_default();
        let command = args.get("command").and_then(Value::as_str);
        let message = match command {
            _ if restarts => {
                close(&session, &[]).await;
                session.lock().await.follows_another = false;
                ToolMessage::success(call, "The next command runs in a new session.")
            }
            Some(command) => self.execute(&session, command, call).await?,
            None => ToolMessage::error(call, "Set `command` to a command, or `restart` to true."),
        };
        Ok(ToolOutput::Message(message))
    }

    /// Executes a command in a session, which is started first if necessary.
    async fn execute(
        &self,
        session: &SharedSession,
        command: &str,
        call: &ToolCall,
    ) -> Result<ToolMessage, NodeError> {
        let mut session = session.lock().await;
        let is_new = session.follows_another;
        // If the command fails or is cancelled, the state of the session is unknown, and the session ends. The next
        // result reports this.
        let mut open = match session.open.take() {
            Some(open) => open,
            None => self.start().await?,
        };
        session.follows_another = true;
        let result = execute_or_close(&mut *open, command).await?;
        match result.session_ended {
            true => open.close().await,
            false => session.open = Some(open),
        }
        session.follows_another = false;
        Ok(self.to_message(call, &result, is_new))
    }

    async fn start(&self) -> Result<Box<dyn CommandSession>, NodeError> {
        let mut session = self.executor.start().await?;
        for command in &self.startup {
            let result = execute_or_close(&mut *session, command).await?;
            if result.exit_code != Some(0) {
                session.close().await;
                let output = first_lines(&result.output, self.max_lines);
                let problem = format!("the startup command `{command}` failed: {output}");
                return Err(AgentError::named("RuntimeError", problem).into());
            }
        }
        Ok(session)
    }

    fn to_message(&self, call: &ToolCall, result: &CommandResult, is_new: bool) -> ToolMessage {
        let mut text = first_lines(&result.output, self.max_lines);
        if text.is_empty() {
            text.push_str("<no output>");
        }
        if let Some(code) = result.exit_code.filter(|it| *it != 0) {
            text.push_str(&format!("\n\nExit code: {code}"));
        }
        if is_new {
            text.push_str("\n\nAn earlier session has ended. This command ran in a new session.");
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

/// Executes a command, and ends the session if that fails.
async fn execute_or_close(
    session: &mut dyn CommandSession,
    command: &str,
) -> Result<CommandResult, NodeError> {
    let result = session.execute(command).await;
    if result.is_err() {
        session.close().await;
    }
    result
}

/// Executes these commands in a session, then closes it.
async fn close(session: &SharedSession, commands: &[String]) {
    let Some(mut open) = session.lock().await.open.take() else { return };
    for command in commands {
        // The run has ended, so failures are ignored.
        let _ = open.execute(command).await;
    }
    open.close().await;
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

    fn for_agent(&self) -> Option<Arc<dyn Middleware>> {
        Some(Arc::new(Self { sessions: Sessions::default(), ..self.clone() }))
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
        let description = "Runs a command. All commands share a session, so a change of the working directory lasts. \
                           Parallel calls run one after the other, in any order.";
        let shell = Arc::new(self.clone());
        let tool = Tool::dynamic("shell", description, schema, move |args, runtime| {
            let shell = shell.clone();
            async move { shell.call(&args, &runtime).await }
        });
        let tool = tool.reads_state(false);
        vec![if self.trusted { tool } else { tool.untrusted() }]
    }

    async fn before_agent(
        &self,
        _: &AgentState,
        context: &Context,
    ) -> Result<Option<Update>, NodeError> {
        for left in self.sessions.begin(&Place::of(context)) {
            close(&left, &[]).await;
        }
        Ok(None)
    }

    async fn after_agent(
        &self,
        _: &AgentState,
        context: &Context,
    ) -> Result<Option<Update>, NodeError> {
        if let Some(session) = self.sessions.remove(&Place::of(context)) {
            close(&session, &self.shutdown).await;
        }
        Ok(None)
    }
}
