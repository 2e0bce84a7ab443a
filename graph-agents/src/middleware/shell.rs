//! A tool that runs commands.

mod allowed_commands;
mod executor;
mod split;

use std::sync::Arc;

use async_trait::async_trait;
use graph_core::NodeError;
use serde_json::json;

use super::hooks::{Hooks, Middleware};
use crate::{
    message::{Status, ToolMessage},
    tool::{Tool, ToolOutput},
};

pub use allowed_commands::AllowedCommands;
pub use executor::{CommandExecutor, CommandResult};

/// Gives the model the tool `shell`, which runs commands through a [`CommandExecutor`].
///
/// There is no executor that passes commands to a shell of the host: a model would then act with all permissions of the
/// program.
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
    max_lines: usize,
}

impl Shell {
    /// Creates the middleware.
    pub fn new(executor: impl CommandExecutor + 'static) -> Self {
        Self { executor: Arc::new(executor), max_lines: 100 }
    }

    /// Sets the maximum number of lines that the model sees of an output. The default is 100.
    #[must_use]
    pub fn max_lines(mut self, lines: usize) -> Self {
        self.max_lines = lines;
        self
    }
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
        Hooks::new()
    }

    fn tools(&self) -> Vec<Tool> {
        let schema = json!({
            "properties": {"command": {"type": "string", "description": "The command to run."}},
            "required": ["command"],
        });
        let (executor, max_lines) = (self.executor.clone(), self.max_lines);
        let run = Tool::dynamic("shell", "Runs a command.", schema, move |args, runtime| {
            let executor = executor.clone();
            async move {
                let command = args["command"].as_str().unwrap_or_default();
                let result = executor.execute(command).await?;
                let mut text = first_lines(&result.output, max_lines);
                if text.is_empty() {
                    text = "<no output>".to_owned();
                }
                let mut message = ToolMessage::success(runtime.call(), text);
                if result.exit_code != Some(0) {
                    message.status = Status::Error;
                    if let Some(code) = result.exit_code {
                        message.content =
                            format!("{}\n\nExit code: {code}", message.content.text()).into();
                    }
                }
                message.artifact = Some(json!({"exit_code": result.exit_code}));
                Ok::<_, NodeError>(ToolOutput::Message(message))
            }
        });
        vec![run.reads_state(false)]
    }
}
