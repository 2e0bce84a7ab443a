//! The interface to the environment in which commands run.

use std::fmt;

use async_trait::async_trait;
use graph_core::NodeError;

/// Executes the commands of a [`Shell`](super::Shell). Implement it for a sandbox, or use
/// [`AllowedCommands`](super::AllowedCommands).
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
