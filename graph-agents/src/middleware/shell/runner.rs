//! Executes calls to the tool `shell`.

use std::sync::Arc;

use graph_core::NodeError;
use serde_json::{Map, Value, json};

use super::{
    executor::{CommandExecutor, CommandResult, CommandSession},
    sessions::{Caller, Session, Sessions},
};
use crate::{
    AgentError,
    message::{Status, ToolCall, ToolMessage},
    tool::{ToolOutput, ToolRuntime},
};

/// Runs commands in the sessions of their conversations. Clones share the sessions.
#[derive(Clone, Debug)]
pub(super) struct Runner {
    pub(super) executor: Arc<dyn CommandExecutor>,
    /// Commands that run at the start of each session.
    pub(super) startup: Vec<String>,
    /// Maximum number of lines that the model sees of an output.
    pub(super) max_lines: usize,
    pub(super) sessions: Arc<Sessions>,
}

impl Runner {
    pub(super) async fn call(
        &self,
        args: &Map<String, Value>,
        runtime: &ToolRuntime,
    ) -> Result<ToolOutput, NodeError> {
        let session = self.sessions.get(Caller::of(runtime.context()));
        let mut session = session.lock().await;
        let call = runtime.call();
        let restarts = args.get("restart").and_then(Value::as_bool).unwrap_or_default();
        let command = args.get("command").and_then(Value::as_str);
        let message = match command {
            _ if restarts => {
                session.close(&[]).await;
                ToolMessage::success(call, "The next command runs in a new session.")
            }
            Some(command) => self.execute(&mut session, command, call).await?,
            None => ToolMessage::error(call, "Set `command` to a command, or `restart` to true."),
        };
        Ok(ToolOutput::Message(message))
    }

    /// Executes a command in a session, which is started first if necessary.
    async fn execute(
        &self,
        session: &mut Session,
        command: &str,
        call: &ToolCall,
    ) -> Result<ToolMessage, NodeError> {
        let was_lost = matches!(session, Session::Lost);
        let mut open = match session.take() {
            Some(open) => open,
            None => self.start().await?,
        };
        // If the command fails or is cancelled, the state of the session is unknown, and the session ends. The next
        // result reports this.
        *session = Session::Lost;
        let result = execute_or_close(&mut *open, command).await?;
        *session = match result.session_ended {
            true => {
                open.close().await;
                Session::Fresh
            }
            false => Session::Open(open),
        };
        Ok(self.to_message(call, &result, was_lost))
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

    fn to_message(&self, call: &ToolCall, result: &CommandResult, was_lost: bool) -> ToolMessage {
        let mut text = first_lines(&result.output, self.max_lines);
        if text.is_empty() {
            text.push_str("<no output>");
        }
        if let Some(code) = result.exit_code.filter(|it| *it != 0) {
            text.push_str(&format!("\n\nExit code: {code}"));
        }
        if was_lost {
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

/// Shortens an output to its first lines.
fn first_lines(output: &str, max: usize) -> String {
    let total = output.lines().count();
    if total <= max {
        return output.to_owned();
    }
    let lines: Vec<_> = output.lines().take(max).collect();
    format!("{}\n[output truncated: the first {max} of {total} lines are shown]", lines.join("\n"))
}
