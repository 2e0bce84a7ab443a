//! Requests, in a form that is independent of the provider.

use std::any::Any;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Message, Role, attachment::Attachment, message::is_false};

/// A request to a model.
///
/// ```
/// use llm::{Message, Request};
///
/// let request = Request::new("How old is the Rhine?").system("You are a geologist.").max_tokens(200);
/// assert_eq!(request.messages, [Message::user("How old is the Rhine?")]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// System prompt. It precedes the conversation, so it is the first part of a cached prompt prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The conversation so far. The model answers the last message.
    pub messages: Vec<Message>,
    /// Sampling temperature. Ignored for models that reject it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Maximum number of tokens in the response, including reasoning.
    pub max_tokens: u32,
    /// Stop sequences. The response ends before the first stop sequence that would occur in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Tools that the model may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// Whether the model must call a tool.
    #[serde(default, skip_serializing_if = "ToolChoice::is_auto")]
    pub tool_choice: ToolChoice,
    /// JSON Schema that the response must conform to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
    /// Seed for reproducible sampling. Used only for providers that support it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// How much a reasoning model reasons before it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Key that requests with a common prefix share. Some providers use it to find the cached prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_key: Option<String>,
    /// Whether to set a cache breakpoint after the tools and the system prompt; see [`Message::cache`].
    #[serde(default, skip_serializing_if = "is_false")]
    pub cache_system: bool,
    /// Value for models inside the process; see [`attach`](Self::attach).
    #[serde(skip)]
    pub attachment: Attachment,
}

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Name of the tool.
    pub name: String,
    /// Description for the model: what the tool does and when to use it.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

/// Whether the model must call a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must call at least one tool.
    Required,
    /// The model must not call a tool.
    None,
    /// The model must call the tool with this name.
    Tool(String),
}

/// A named JSON Schema for responses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schema {
    /// Name of the schema, which consists of letters, digits, `_` and `-`.
    pub name: String,
    /// The JSON Schema.
    pub schema: Value,
}

/// How much a reasoning model reasons before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// No reasoning, if the model allows turning it off.
    None,
    /// Little reasoning.
    Low,
    /// Moderate reasoning.
    Medium,
    /// Extensive reasoning.
    High,
}

impl Request {
    /// Default value of [`max_tokens`](Self::max_tokens).
    pub const MAX_TOKENS: u32 = 4096;

    /// Creates a request with a single user message.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self::conversation(vec![Message::user(prompt)])
    }

    /// Creates a request that continues a conversation.
    pub fn conversation(messages: Vec<Message>) -> Self {
        Self {
            system: None,
            messages,
            temperature: None,
            max_tokens: Self::MAX_TOKENS,
            stop: Vec::new(),
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            schema: None,
            seed: None,
            effort: None,
            cache_key: None,
            cache_system: false,
            attachment: Attachment::default(),
        }
    }

    /// Sets the system prompt.
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.system = Some(text.into());
        self
    }

    /// Adds a message.
    pub fn message(mut self, message: Message) -> Self {
        self.messages.push(message);
        self
    }

    /// Sets [`temperature`](Self::temperature).
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// Sets [`max_tokens`](Self::max_tokens).
    pub fn max_tokens(mut self, max_tokens: u32) -> Self {
        self.max_tokens = max_tokens;
        self
    }

    /// Adds a stop sequence.
    pub fn stop(mut self, sequence: impl Into<String>) -> Self {
        self.stop.push(sequence.into());
        self
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Sets [`tool_choice`](Self::tool_choice).
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = choice;
        self
    }

    /// Sets the schema of the response.
    pub fn schema(mut self, schema: Schema) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Sets [`seed`](Self::seed).
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets [`effort`](Self::effort).
    pub fn effort(mut self, effort: Effort) -> Self {
        self.effort = Some(effort);
        self
    }

    /// Sets [`cache_key`](Self::cache_key).
    pub fn cache_key(mut self, key: impl Into<String>) -> Self {
        self.cache_key = Some(key.into());
        self
    }

    /// Sets [`cache_system`](Self::cache_system).
    pub fn cache_system(mut self) -> Self {
        self.cache_system = true;
        self
    }

    /// Attaches a value, which replaces the one attached before. Only models inside the process can read it: it is
    /// neither serialised nor sent to a provider, and it affects no recording or cache key.
    ///
    /// ```
    /// use llm::Request;
    ///
    /// let request = Request::new("How long is the Rhine?").attach(1233_u32);
    /// assert_eq!(request.attached::<u32>(), Some(&1233));
    /// assert_eq!(request, Request::new("How long is the Rhine?"));
    /// ```
    pub fn attach<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.attachment = Attachment::new(value);
        self
    }

    /// Returns the attached value if it has this type.
    pub fn attached<T: Any>(&self) -> Option<&T> {
        self.attachment.get()
    }

    /// Returns the text of the last user message.
    pub fn prompt(&self) -> String {
        let mut messages = self.messages.iter().rev();
        messages.find(|it| it.role == Role::User).map(Message::text).unwrap_or_default()
    }
}

impl From<&str> for Request {
    fn from(prompt: &str) -> Self {
        Self::new(prompt)
    }
}

impl From<String> for Request {
    fn from(prompt: String) -> Self {
        Self::new(prompt)
    }
}

impl ToolChoice {
    fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}
