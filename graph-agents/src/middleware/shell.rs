//! A tool that runs commands.

mod allowed_commands;
mod executor;
mod runner;
mod sessions;
mod split;

use std::sync::Arc;

use async_trait::async_trait;
use graph_core::{Context, NodeError};
use serde_json::json;

use super::hooks::{Hooks, Middleware};
use crate::{AgentState, command::Update, tool::Tool};
use runner::Runner;
use sessions::{Caller, Sessions};

pub use allowed_commands::AllowedCommands;
pub use executor::{CommandExecutor, CommandResult, CommandSession};

/// Gives the model the tool `shell`, which runs commands through a [`CommandExecutor`].
///
/// All commands of a run share a session, so the working directory of one command is that of the next. The session
/// starts with the first command and ends with the run. With the argument `restart`, the model starts over with a new
/// session. A command that exceeds the time limit of the executor ends the session, and its result reports this.
/// Parallel calls of one message run one after the other, in any order.
///
/// An interrupted run keeps its session for at least an hour, unless the executor ends the session earlier. When the
/// run is resumed, it continues in that session. If the session has ended, if another process resumes the run, or after
/// an edit of the thread's state or time travel, the run continues in a new session, and the first result reports this.
///
/// If a run fails or is cancelled during a command, its session ends with that command; otherwise, its session ends
/// when the next run of the thread starts. Sessions that are unused for an hour, such as those of failed runs without a
/// thread, end when the next run of any thread starts, and all sessions end when the agent is dropped. A `Shell` has
/// one session per thread name and namespace, so agents whose threads can have the same names must not share a `Shell`.
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
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use]
pub struct Shell {
    runner: Runner,
    shutdown: Vec<String>,
    trusted: bool,
}

impl Shell {
    /// Creates the middleware.
    pub fn new(executor: impl CommandExecutor + 'static) -> Self {
        let runner = Runner {
            executor: Arc::new(executor),
            startup: Vec::new(),
            max_lines: 100,
            sessions: Arc::new(Sessions::default()),
        };
        Self { runner, shutdown: Vec::new(), trusted: false }
    }

    /// Sets the maximum number of lines that the model sees of an output. The default is 100.
    pub fn max_lines(mut self, lines: usize) -> Self {
        self.runner.max_lines = lines;
        self
    }

    /// Sets commands that run at the start of each session. If one fails, the agent's run fails.
    pub fn startup<C: Into<String>>(mut self, commands: impl IntoIterator<Item = C>) -> Self {
        self.runner.startup = commands.into_iter().map(Into::into).collect();
        self
    }

    /// Sets commands that run when the agent has finished, if a session was started. Failures are ignored.
    pub fn shutdown<C: Into<String>>(mut self, commands: impl IntoIterator<Item = C>) -> Self {
        self.shutdown = commands.into_iter().map(Into::into).collect();
        self
    }

    /// Does not mark results as untrusted data. Use it if the commands print only your own data.
    pub fn trusted(mut self) -> Self {
        self.trusted = true;
        self
    }
}

#[async_trait]
impl Middleware for Shell {
    fn name(&self) -> String {
        "ShellToolMiddleware".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().before_agent([]).after_agent([])
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
        let runner = Arc::new(self.runner.clone());
        let tool = Tool::dynamic("shell", description, schema, move |args, runtime| {
            let runner = runner.clone();
            async move { runner.call(&args, &runtime).await }
        });
        let tool = tool.reads_state(false);
        vec![if self.trusted { tool } else { tool.untrusted() }]
    }

    async fn before_agent(
        &self,
        _: &AgentState,
        context: &Context,
    ) -> Result<Option<Update>, NodeError> {
        if let Some(left) = self.runner.sessions.begin(Caller::of(context)) {
            left.lock().await.close(&[]).await;
        }
        Ok(None)
    }

    async fn after_agent(
        &self,
        _: &AgentState,
        context: &Context,
    ) -> Result<Option<Update>, NodeError> {
        if let Some(session) = self.runner.sessions.remove(&Caller::of(context)) {
            session.lock().await.close(&self.shutdown).await;
        }
        Ok(None)
    }
}
