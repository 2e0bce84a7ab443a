//! The interface to the environment in which commands run.

use std::fmt;

use async_trait::async_trait;
use graph_core::NodeError;

/// Executes the commands of a [`Shell`](super::Shell). Implement it for a sandbox, or use
/// [`AllowedCommands`](super::AllowedCommands).
///
/// ```
/// use async_trait::async_trait;
/// use graph_agents::{
///     Agent, AiMessage, ScriptedModel, ToolCall,
///     middleware::{CommandExecutor, CommandResult, Shell},
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
///     async fn execute(&self, command: &str) -> Result<CommandResult, NodeError> {
///         Ok(match command {
///             "date" => CommandResult { output: "Tuesday".to_owned(), exit_code: Some(0) },
///             _ => CommandResult { output: "not found".to_owned(), exit_code: Some(127) },
///         })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let call = ToolCall::new("shell", json!({"command": "date"}), "call-1");
/// let model = ScriptedModel::new([AiMessage::new("").tool_call(call), AiMessage::new("Tuesday.")]);
/// let agent = Agent::new(model).middleware(Shell::new(Pretend)).compile()?;
/// let outcome = agent.run("Which day is it?").await?;
/// assert!(outcome.messages[2].text().starts_with("Tuesday"));
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait CommandExecutor: fmt::Debug + Send + Sync {
    /// Executes a command. Returns a result for a command that fails; an error fails the agent's run.
    async fn execute(&self, command: &str) -> Result<CommandResult, NodeError>;
}

/// The result of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandResult {
    /// Standard output and standard error.
    pub output: String,
    /// Exit code. `None` if the command was refused, timed out or was killed.
    pub exit_code: Option<i32>,
}
