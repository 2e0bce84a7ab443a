//! One tool call, and functions that wrap it.

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use graph_core::{Context, NodeError};

use super::{
    definition::Tool,
    limit::{MAX_OUTPUT, truncate},
};
use crate::{
    AgentState,
    command::Command,
    dependencies::Dependencies,
    message::{Content, ToolCall, ToolMessage},
};

/// A tool call that is about to be executed.
#[derive(Clone, Debug)]
pub struct ToolRequest {
    /// The call. Changes affect the execution, not the message that contains the call.
    pub call: ToolCall,
    /// The tool with the name in the call, or `None` if there is no such tool.
    pub tool: Option<Tool>,
    /// State of the agent before the step.
    pub state: AgentState,
    /// Context of the task.
    pub context: Context,
    /// Dependencies of the agent.
    pub dependencies: Dependencies,
    pub(crate) input: InputKind,
}

/// The kind of input that a tool node runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputKind {
    /// A state, or a call sent with a state.
    State,
    /// A list of messages.
    List,
}

/// Creates the answer to a call that failed. The text is limited and marked like a result of the tool.
pub(crate) fn error_message(tool: Option<&Tool>, call: &ToolCall, text: String) -> ToolMessage {
    let content = Content::from(text);
    ToolMessage::error(
        call,
        match tool {
            Some(tool) => tool.limit(content),
            None => truncate(content, MAX_OUTPUT),
        },
    )
}

/// The answer to a tool call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ToolAnswer {
    /// A message.
    Message(ToolMessage),
    /// A command.
    Command(Command),
    /// Several messages and commands.
    Many(Vec<Self>),
}

impl From<ToolMessage> for ToolAnswer {
    fn from(message: ToolMessage) -> Self {
        Self::Message(message)
    }
}

impl From<Command> for ToolAnswer {
    fn from(command: Command) -> Self {
        Self::Command(command)
    }
}

/// Executes a call, or passes it to the next wrapper. Cheap to clone.
#[derive(Clone)]
pub struct ToolHandler {
    handle:
        Arc<dyn Fn(ToolRequest) -> BoxFuture<'static, Result<ToolAnswer, NodeError>> + Send + Sync>,
    tools: Arc<[Tool]>,
}

impl ToolHandler {
    pub(crate) fn new(
        tools: Arc<[Tool]>,
        handle: impl Fn(ToolRequest) -> BoxFuture<'static, Result<ToolAnswer, NodeError>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { handle: Arc::new(handle), tools }
    }

    /// Executes the call. May be called several times, for example to retry it.
    pub async fn call(&self, request: ToolRequest) -> Result<ToolAnswer, NodeError> {
        (self.handle)(request).await
    }

    /// Returns the registered tools.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// Wraps this handler.
    pub(crate) fn wrapped_by(self, wrapper: ToolWrapper) -> Self {
        let tools = self.tools.clone();
        Self::new(tools, move |request| wrapper(request, self.clone()))
    }
}

impl fmt::Debug for ToolHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToolHandler")
    }
}

/// A function that wraps the execution of a call. It may change the request, execute the call any number of times, or
/// return an answer without executing it.
pub type ToolWrapper = Arc<
    dyn Fn(ToolRequest, ToolHandler) -> BoxFuture<'static, Result<ToolAnswer, NodeError>>
        + Send
        + Sync,
>;
