//! Message types.

use llm::{Part, TokenLogprob, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::content::Content;
use crate::id::new_id;

/// Id in a [`Message::Remove`] that removes all messages.
pub const REMOVE_ALL: &str = "__remove_all__";

/// One message of a conversation.
///
/// ```
/// use graph_agents::Message;
///
/// let message = Message::human("How old is the Rhine?");
/// assert_eq!(message.text(), "How old is the Rhine?");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Message {
    /// A message from the user.
    Human(TextMessage),
    /// A message from the model.
    Ai(AiMessage),
    /// Instructions for the model.
    System(TextMessage),
    /// The result of a tool call.
    Tool(ToolMessage),
    /// Removes the message with this id from the list, or all messages if the id is [`REMOVE_ALL`].
    Remove {
        /// Id of the message to remove.
        id: String,
    },
}

/// A message that consists of content alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TextMessage {
    /// The content.
    pub content: Content,
    /// Id of the message. The reducer assigns one if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Name of the author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Middleware that created the message, such as `summarization`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A message from the model.
///
/// ```
/// use graph_agents::{AiMessage, ToolCall};
/// use serde_json::json;
///
/// let call = ToolCall::new("weather", json!({"city": "Rome"}), "call-1");
/// let message = AiMessage::new("I will look it up.").tool_call(call);
/// assert_eq!(message.tool_calls[0].args["city"], "Rome");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AiMessage {
    /// The content, without reasoning and tool calls.
    pub content: Content,
    /// Id of the message. The reducer assigns one if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Name of the agent that produced the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Tool calls that the model requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Tool calls whose arguments are not a JSON object. They cannot be executed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid_tool_calls: Vec<InvalidToolCall>,
    /// Token counts of the model call, if the provider reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Reasoning, which some providers require to be sent back with the conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasoning: Vec<Part>,
    /// Log probabilities of the tokens, if [requested](crate::Agent::logprobs) and reported by the provider.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<TokenLogprob>,
}

/// A tool call requested by the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Name of the tool.
    pub name: String,
    /// The arguments as the model wrote them.
    #[serde(default)]
    pub args: Map<String, Value>,
    /// Id of the call. The result of the call has the same id.
    #[serde(default)]
    pub id: Option<String>,
    /// Provider data that must be sent back unchanged with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Value>,
}

/// A tool call whose arguments are not a JSON object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InvalidToolCall {
    /// Name of the tool.
    #[serde(default)]
    pub name: Option<String>,
    /// The text that the model wrote in place of the arguments.
    #[serde(default)]
    pub args: Option<String>,
    /// Id of the call.
    #[serde(default)]
    pub id: Option<String>,
    /// Reason why the arguments cannot be parsed. The model sees it in the error that answers the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Provider data that must be sent back unchanged with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Value>,
}

/// The result of a tool call.
///
/// ```
/// use graph_agents::{Status, ToolCall, ToolMessage};
/// use serde_json::json;
///
/// let call = ToolCall::new("weather", json!({"city": "Rome"}), "call-1");
/// let result = ToolMessage::success(&call, "It rains in Rome.");
/// assert_eq!((&*result.tool_call_id, result.status), ("call-1", Status::Success));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolMessage {
    /// The result that the model sees.
    pub content: Content,
    /// Id of the message. The reducer assigns one if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Name of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Id of the call.
    pub tool_call_id: String,
    /// Whether the tool succeeded.
    #[serde(default)]
    pub status: Status,
    /// Data that only the application sees, not the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Value>,
}

/// Whether a tool succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The tool succeeded.
    #[default]
    Success,
    /// The tool failed, or was not executed.
    Error,
}

impl Message {
    /// Creates a message from the user.
    pub fn human(content: impl Into<Content>) -> Self {
        Self::Human(TextMessage::new(content))
    }

    /// Creates a message from the model.
    pub fn ai(content: impl Into<Content>) -> Self {
        Self::Ai(AiMessage::new(content))
    }

    /// Creates a system message.
    pub fn system(content: impl Into<Content>) -> Self {
        Self::System(TextMessage::new(content))
    }

    /// Creates a marker that removes the message with this id.
    pub fn remove(id: impl Into<String>) -> Self {
        Self::Remove { id: id.into() }
    }

    /// Creates a marker that removes all messages.
    pub fn remove_all() -> Self {
        Self::remove(REMOVE_ALL)
    }

    /// Returns the id.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Human(it) | Self::System(it) => it.id.as_deref(),
            Self::Ai(it) => it.id.as_deref(),
            Self::Tool(it) => it.id.as_deref(),
            Self::Remove { id } => Some(id),
        }
    }

    /// Sets the id.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.set_id(id.into());
        self
    }

    fn set_id(&mut self, new: String) {
        match self {
            Self::Human(it) | Self::System(it) => it.id = Some(new),
            Self::Ai(it) => it.id = Some(new),
            Self::Tool(it) => it.id = Some(new),
            Self::Remove { id } => *id = new,
        }
    }

    /// Assigns a random id if the message has none.
    pub(crate) fn ensure_id(&mut self) {
        if self.id().is_none() {
            self.set_id(new_id());
        }
    }

    /// Returns the name of the author or tool.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Human(it) | Self::System(it) => it.name.as_deref(),
            Self::Ai(it) => it.name.as_deref(),
            Self::Tool(it) => it.name.as_deref(),
            Self::Remove { .. } => None,
        }
    }

    /// Returns the content. A removal has none.
    pub fn content(&self) -> Option<&Content> {
        match self {
            Self::Human(it) | Self::System(it) => Some(&it.content),
            Self::Ai(it) => Some(&it.content),
            Self::Tool(it) => Some(&it.content),
            Self::Remove { .. } => None,
        }
    }

    /// Replaces the content. Does nothing for a removal.
    pub(crate) fn set_content(&mut self, content: Content) {
        match self {
            Self::Human(it) | Self::System(it) => it.content = content,
            Self::Ai(it) => it.content = content,
            Self::Tool(it) => it.content = content,
            Self::Remove { .. } => {}
        }
    }

    /// Returns the text of the content.
    pub fn text(&self) -> String {
        self.content().map(Content::text).unwrap_or_default()
    }

    /// Returns the type as it is stored: `human`, `ai`, `system`, `tool` or `remove`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Human(_) => "human",
            Self::Ai(_) => "ai",
            Self::System(_) => "system",
            Self::Tool(_) => "tool",
            Self::Remove { .. } => "remove",
        }
    }

    /// Returns the message if it is from the model.
    pub fn as_ai(&self) -> Option<&AiMessage> {
        match self {
            Self::Ai(it) => Some(it),
            _ => None,
        }
    }

    /// Returns the message if it is a tool result.
    pub fn as_tool(&self) -> Option<&ToolMessage> {
        match self {
            Self::Tool(it) => Some(it),
            _ => None,
        }
    }
}

impl TextMessage {
    /// Creates a message with this content.
    pub fn new(content: impl Into<Content>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }
}

impl AiMessage {
    /// Creates a message with this content and without tool calls.
    pub fn new(content: impl Into<Content>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }

    /// Adds a tool call.
    #[must_use]
    pub fn tool_call(mut self, call: ToolCall) -> Self {
        self.tool_calls.push(call);
        self
    }
}

impl ToolCall {
    /// Creates a tool call. `args` must be a JSON object; other values become an empty object.
    pub fn new(name: impl Into<String>, args: Value, id: impl Into<String>) -> Self {
        let args = match args {
            Value::Object(args) => args,
            _ => Map::new(),
        };
        Self { name: name.into(), args, id: Some(id.into()), opaque: None }
    }

    /// Returns the id, or an empty string if the call has none.
    pub fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }
}

impl ToolMessage {
    /// Creates the result of a successful call.
    pub fn success(call: &ToolCall, content: impl Into<Content>) -> Self {
        Self {
            content: content.into(),
            id: None,
            name: Some(call.name.clone()),
            tool_call_id: call.id().to_owned(),
            status: Status::Success,
            artifact: None,
        }
    }

    /// Creates the result of a failed call.
    pub fn error(call: &ToolCall, content: impl Into<Content>) -> Self {
        Self { status: Status::Error, ..Self::success(call, content) }
    }
}

impl From<&str> for AiMessage {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<AiMessage> for Message {
    fn from(message: AiMessage) -> Self {
        Self::Ai(message)
    }
}

impl From<ToolMessage> for Message {
    fn from(message: ToolMessage) -> Self {
        Self::Tool(message)
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::human(text)
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::human(text)
    }
}

/// Returns the newest message from the model and the tool results that follow it.
pub(crate) fn last_ai(messages: &[Message]) -> Option<(&AiMessage, Vec<&ToolMessage>)> {
    let index = messages.iter().rposition(|it| it.as_ai().is_some())?;
    let answers = messages[index + 1..].iter().filter_map(Message::as_tool).collect();
    Some((messages[index].as_ai()?, answers))
}
