//! The interface to the environment in which commands run.

use std::fmt;

use async_trait::async_trait;
use graph_core::NodeError;

/// Starts the sessions in which a [`Shell`](super::Shell) runs commands. Use
/// [`AllowedCommands`](super::AllowedCommands), or `SandboxCommands` of the module `code` (feature `sandbox`), or
/// implement it for another sandbox.
///
/// ```
/// use async_trait::async_trait;
/// use graph_agents::{
///     Agent, AiMessage, ScriptedModel, ToolCall,
///     middleware::{CommandExecutor, CommandResult, CommandSession, Shell},
/// };
/// use graph_core::NodeError;
/// use serde_json::json;
///
/// /// Knows a single command. A real executor passes commands to a sandbox.
/// #[derive(Debug)]
/// struct Pretend;
///
/// #[async_trait]
/// impl CommandExecutor for Pretend {
///     async fn start(&self) -> Result<Box<dyn CommandSession>, NodeError> {
///         Ok(Box::new(Self))
///     }
/// }
///
/// #[async_trait]
/// impl CommandSession for Pretend {
///     async fn execute(&mut self, command: &str) -> Result<CommandResult, NodeError> {
///         Ok(match command {
///             "date" => CommandResult::exited(0, "Tuesday"),
///             _ => CommandResult::exited(127, "not found"),
///         })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let call = ToolCall::new("shell", json!({"command": "date"}), "call-1");
/// let model = ScriptedModel::new([AiMessage::new("").tool_call(call), AiMessage::new("Tuesday.")]);
/// let agent = Agent::new(model).middleware(Shell::new(Pretend)).compile()?;
/// let outcome = agent.run("Which day is it?").await?;
/// assert!(outcome.messages[2].text().contains("Tuesday"));
/// # Ok(()) }
/// ```
#[async_trait]
pub trait CommandExecutor: fmt::Debug + Send + Sync {
    /// Starts a session. An error fails the agent's run.
    async fn start(&self) -> Result<Box<dyn CommandSession>, NodeError>;
}

/// A session of commands. Its state, such as the working directory, is kept from one command to the next.
///
/// A session is dropped without [`close`](Self::close) if its command is cancelled, if its thread continues from an
/// earlier checkpoint, or if it is unused for an hour. An implementation must therefore also release its resources when
/// it is dropped.
#[async_trait]
pub trait CommandSession: fmt::Debug + Send {
    /// Executes a command. Returns a result for a command that fails; an error fails the agent's run.
    async fn execute(&mut self, command: &str) -> Result<CommandResult, NodeError>;

    /// Releases the resources of the session.
    async fn close(&mut self) {}
}

/// The result of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandResult {
    /// Standard output and standard error.
    pub output: String,
    /// Exit code. `None` if the command was refused, timed out or was killed.
    pub exit_code: Option<i32>,
    /// Whether the command ended the session, because it exceeded a limit or because the session failed. The next
    /// command runs in a new session.
    pub session_ended: bool,
}

impl CommandResult {
    /// Creates the result of a program that exited with this code.
    pub fn exited(code: i32, output: impl Into<String>) -> Self {
        Self { output: output.into(), exit_code: Some(code), session_ended: false }
    }

    /// Creates the result of a command that was refused or killed. The session continues.
    pub fn failed(output: impl Into<String>) -> Self {
        Self { output: output.into(), ..Self::default() }
    }

    /// Creates the result of a command that ended the session.
    pub fn ended_session(output: impl Into<String>) -> Self {
        Self { session_ended: true, ..Self::failed(output) }
    }
}
