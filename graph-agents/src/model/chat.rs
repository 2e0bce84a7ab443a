//! The model interface.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use graph_core::{Context, NodeError};
use llm::ProviderTool;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    id::new_id,
    message::{AiMessage, Content, Message, MessageList},
};

/// A model that an agent can call. [`LlmModel`](super::LlmModel) adapts the models of the crate `llm`.
///
/// ```
/// use async_trait::async_trait;
/// use graph_agents::{
///     Agent, AiMessage, ChatModel, Message,
///     model::{ChunkSink, Prompt},
/// };
/// use graph_core::NodeError;
///
/// /// A model that repeats the last message.
/// #[derive(Debug)]
/// struct Echo;
///
/// #[async_trait]
/// impl ChatModel for Echo {
///     async fn call(&self, prompt: &Prompt, _: &mut ChunkSink<'_>) -> Result<AiMessage, NodeError> {
///         let last = prompt.messages.last().map(Message::text).unwrap_or_default();
///         Ok(AiMessage::new(last))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// assert_eq!(Agent::new(Echo).compile()?.run("Hello!").await?.text(), "Hello!");
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used as a model of an agent",
    label = "this type does not implement `ChatModel`",
    note = "use the model of a provider, `LlmModel::new(create_provider(\"anthropic\", None, None)?)`, or a `ScriptedModel` in tests",
    note = "for another model, implement `ChatModel`, with `#[async_trait]` on the `impl`"
)]
#[async_trait]
pub trait ChatModel: fmt::Debug + Send + Sync {
    /// Returns the abilities of the model.
    fn profile(&self) -> ModelProfile {
        ModelProfile::default()
    }

    /// Answers a prompt. A model that streams sends each piece to `chunks`.
    async fn call(
        &self,
        prompt: &Prompt,
        chunks: &mut ChunkSink<'_>,
    ) -> Result<AiMessage, NodeError>;
}

/// Asks a model for a value that matches a schema. The caller must validate the value, because a model can ignore the
/// schema. The value is null if the answer is not JSON.
pub(crate) async fn structured(
    model: &dyn ChatModel,
    prompt: &Prompt,
    schema: &OutputSchema,
) -> Result<Value, NodeError> {
    let prompt = Prompt { output: Some(schema.clone()), ..prompt.clone() };
    let answer = model.call(&prompt, &mut ChunkSink::none()).await?;
    let schema = llm::Schema { name: schema.name.clone(), schema: schema.schema.clone() };
    let text = answer.content.text();
    Ok(match llm::read_json_as(&schema, &text) {
        Ok(fitting) => fitting.value,
        Err(_) => serde_json::from_str(&text).unwrap_or_default(),
    })
}

/// A shared model can be passed wherever a model is expected.
#[async_trait]
impl<M: ChatModel + ?Sized> ChatModel for Arc<M> {
    fn profile(&self) -> ModelProfile {
        (**self).profile()
    }

    async fn call(
        &self,
        prompt: &Prompt,
        chunks: &mut ChunkSink<'_>,
    ) -> Result<AiMessage, NodeError> {
        (**self).call(prompt, chunks).await
    }
}

/// A shared model.
pub type SharedModel = Arc<dyn ChatModel>;

/// Abilities of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelProfile {
    /// Whether the provider can restrict the response to a schema.
    pub structured_output: bool,
    /// Maximum number of tokens in a request.
    pub max_input_tokens: Option<usize>,
}

/// The conversation, tools and options of one model call.
#[derive(Clone, Debug, Default)]
pub struct Prompt {
    /// Content of the system message.
    pub system: Option<Content>,
    /// The conversation.
    pub messages: MessageList,
    /// Tools that the model may call.
    pub tools: Vec<ModelTool>,
    /// Which tool the model must call. `None`: the model decides.
    pub tool_choice: Option<ToolChoice>,
    /// Schema that the response must match.
    pub output: Option<OutputSchema>,
    /// Settings of this call by name. [`LlmModel`](super::LlmModel) lists the names that it accepts, and refuses
    /// others.
    pub settings: Map<String, Value>,
}

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelTool {
    /// A function, whose arguments a JSON Schema describes.
    Function {
        /// Name of the tool.
        name: String,
        /// Description of the tool.
        description: String,
        /// JSON Schema of the arguments.
        parameters: Arc<Value>,
        /// Whether the provider restricts the arguments to the schema; see [`Tool::strict`](crate::Tool::strict).
        strict: bool,
    },
    /// A tool that the provider executes.
    Provider(ProviderTool),
}

impl ModelTool {
    /// Returns the name.
    pub fn name(&self) -> &str {
        match self {
            Self::Function { name, .. } => name,
            Self::Provider(tool) => tool.name(),
        }
    }
}

/// Which tool a model must call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// At least one tool, of the model's choice.
    Any,
    /// No tool.
    None,
    /// The tool with this name.
    Tool(String),
}

/// A schema for a model's response.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutputSchema {
    /// Name of the schema.
    pub name: String,
    /// The JSON Schema.
    pub schema: Value,
    /// Whether the provider must restrict the response to the schema: see
    /// [`Request::strict_schema`](llm::Request::strict_schema).
    pub strict: Option<bool>,
}

/// Receives the pieces of a response that is still arriving, and forwards them to the message stream.
#[derive(Debug)]
pub struct ChunkSink<'a> {
    context: Option<&'a Context>,
    streamed: bool,
}

impl<'a> ChunkSink<'a> {
    /// Creates a sink that forwards to the message stream of a task.
    pub fn new(context: &'a Context) -> Self {
        Self { context: Some(context), streamed: false }
    }

    /// Creates a sink that drops everything.
    pub fn none() -> Self {
        Self { context: None, streamed: false }
    }

    /// Sends a piece of the response.
    pub async fn send(&mut self, chunk: AiMessage) {
        if let Some(context) = self.context {
            self.streamed = true;
            context.message(Message::Ai(chunk)).await;
        }
    }

    /// Ends the response: sends an empty piece if pieces were sent, and the whole message otherwise.
    pub(crate) async fn finish(self, whole: &AiMessage) {
        if let Some(context) = self.context {
            let last = if self.streamed { AiMessage::default() } else { whole.clone() };
            context.message(Message::Ai(last)).await;
        }
    }
}

/// Calls a model and streams its answer to the message stream.
pub(crate) async fn call_streaming(
    model: &SharedModel,
    prompt: &Prompt,
    context: &Context,
) -> Result<AiMessage, NodeError> {
    let mut chunks = ChunkSink::new(context);
    let mut answer = model.call(prompt, &mut chunks).await?;
    answer.id.get_or_insert_with(new_id);
    chunks.finish(&answer).await;
    Ok(answer)
}
