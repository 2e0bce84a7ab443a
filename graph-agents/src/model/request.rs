//! One model call of an agent, and functions that wrap it.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use futures_util::future::BoxFuture;
use graph_core::{Context, NodeError};
use llm::ProviderTool;
use serde_json::{Map, Value};

use super::chat::{SharedModel, ToolChoice};
use crate::{
    AgentState,
    command::Command,
    dependencies::Dependencies,
    lock::lock,
    message::{AiMessage, Content, Message, MessageList},
    response::ResponseFormat,
    tool::Tool,
};

/// A model call that is about to be made. Changes to it affect only this call.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The model.
    pub model: SharedModel,
    /// Content of the system message.
    pub system: Option<Content>,
    /// The conversation, without the system message.
    pub messages: MessageList,
    /// Tools that the model may call.
    pub tools: Vec<RequestTool>,
    /// Which tool the model must call.
    pub tool_choice: Option<ToolChoice>,
    /// How the structured response is obtained.
    pub response_format: Option<ResponseFormat>,
    /// Settings of this call by name; see [`Prompt::settings`](crate::model::Prompt::settings).
    pub settings: Map<String, Value>,
    /// State of the agent.
    pub state: AgentState,
    /// Context of the task.
    pub context: Context,
    /// Dependencies of the agent.
    pub dependencies: Dependencies,
    /// Ids of the messages that were sent to the message stream.
    pub(crate) streamed: Arc<Mutex<Vec<String>>>,
}

/// A tool of a request.
#[derive(Clone, Debug)]
pub enum RequestTool {
    /// A tool that the agent executes.
    Client(Tool),
    /// A tool that the provider executes.
    Provider(ProviderTool),
}

impl RequestTool {
    /// Returns the name.
    pub fn name(&self) -> &str {
        match self {
            Self::Client(tool) => tool.name(),
            Self::Provider(tool) => tool.name(),
        }
    }
}

/// The answer to a model call.
#[derive(Clone, Debug, Default)]
pub struct ModelAnswer {
    /// Messages to add: the AI message, and tool messages for calls to structured-output tools.
    pub messages: Vec<Message>,
    /// The structured response, if there is one.
    pub structured: Option<Value>,
    /// Commands with updates of the state. They are applied after the messages.
    pub commands: Vec<Command>,
}

impl ModelAnswer {
    /// Adds a command with an update of the state.
    #[must_use]
    pub fn command(mut self, command: Command) -> Self {
        self.commands.push(command);
        self
    }

    /// Returns the AI message.
    pub fn ai(&self) -> Option<&AiMessage> {
        self.messages.iter().find_map(Message::as_ai)
    }
}

impl From<AiMessage> for ModelAnswer {
    fn from(message: AiMessage) -> Self {
        Self { messages: vec![message.into()], ..Self::default() }
    }
}

/// Makes a model call, or passes it to the next wrapper. Cheap to clone.
///
/// ```
/// use async_trait::async_trait;
/// use graph_agents::{
///     Agent, AiMessage, ScriptedModel,
///     middleware::{Hooks, Middleware},
///     model::{ModelAnswer, ModelHandler, ModelRequest},
/// };
/// use graph_core::NodeError;
///
/// /// Calls the model a second time if the first call fails.
/// #[derive(Debug)]
/// struct OnceMore;
///
/// #[async_trait]
/// impl Middleware for OnceMore {
///     fn name(&self) -> String {
///         "OnceMore".to_owned()
///     }
///
///     fn hooks(&self) -> Hooks {
///         Hooks::new().wrap_model_call()
///     }
///
///     async fn wrap_model_call(
///         &self,
///         request: ModelRequest,
///         next: ModelHandler,
///     ) -> Result<ModelAnswer, NodeError> {
///         match next.call(request.clone()).await {
///             Err(_) => next.call(request).await,
///             answer => answer,
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new([AiMessage::new("Hello!")]);
/// let agent = Agent::new(model).middleware(OnceMore).compile()?;
/// assert_eq!(agent.run("Hi").await?.text(), "Hello!");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ModelHandler {
    handle: Arc<
        dyn Fn(ModelRequest) -> BoxFuture<'static, Result<ModelAnswer, NodeError>> + Send + Sync,
    >,
    /// Commands that inner wrappers added during the most recent `call`.
    inner_commands: Arc<Mutex<Vec<Command>>>,
}

impl ModelHandler {
    pub(crate) fn new(
        handle: impl Fn(ModelRequest) -> BoxFuture<'static, Result<ModelAnswer, NodeError>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { handle: Arc::new(handle), inner_commands: Arc::default() }
    }

    /// Makes the call. May be called several times; only the commands of the last call are applied.
    ///
    /// The handler stores the commands of inner wrappers itself, outside the returned answer, so they are applied even
    /// if the caller replaces the answer.
    pub async fn call(&self, request: ModelRequest) -> Result<ModelAnswer, NodeError> {
        lock(&self.inner_commands).clear();
        let mut answer = (self.handle)(request).await?;
        lock(&self.inner_commands).append(&mut answer.commands);
        Ok(answer)
    }

    /// Makes the call and returns the answer with the commands of all wrappers.
    pub(crate) async fn call_with_commands(
        &self,
        request: ModelRequest,
    ) -> Result<ModelAnswer, NodeError> {
        (self.handle)(request).await
    }

    /// Returns and removes the commands that inner wrappers added during the most recent `call`.
    pub(crate) fn take_commands(&self) -> Vec<Command> {
        std::mem::take(&mut *lock(&self.inner_commands))
    }

    /// Returns a handler for one call, whose commands are separate from those of other calls.
    pub(crate) fn fresh(&self) -> Self {
        Self { handle: self.handle.clone(), inner_commands: Arc::default() }
    }
}

impl fmt::Debug for ModelHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ModelHandler")
    }
}
