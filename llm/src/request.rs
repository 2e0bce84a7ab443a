//! Requests: what a model is asked, the same for every provider.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Message, message::is_false};

/// What a model is asked.
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
    /// Who the model is to be. Stands before the conversation and is the first thing a prompt cache keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The conversation so far. The last message is the one to answer.
    pub messages: Vec<Message>,
    /// How freely it chooses its words: a wish, left out for the models that refuse it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// How long the answer may be, reasoning included.
    pub max_tokens: u32,
    /// Words at which the answer ends, themselves not part of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// What the model may ask to be called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// Whether it has to use them.
    #[serde(default, skip_serializing_if = "ToolChoice::is_auto")]
    pub tool_choice: ToolChoice,
    /// The form the answer has to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
    /// Makes answers repeatable, where the provider can do that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// How much a reasoning model thinks first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Names requests that begin alike, for providers that look for a cached prefix by such a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_key: Option<String>,
    /// Whether tools and system text are worth a breakpoint of their own: see [`Message::cache`].
    #[serde(default, skip_serializing_if = "is_false")]
    pub cache_system: bool,
}

/// A tool that the model may ask to be called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
}

/// Whether the model has to use its tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// One of them at least.
    Required,
    /// None of them.
    None,
    /// This one.
    Tool(String),
}

/// The form of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schema {
    /// A name for it: letters, digits, `_` and `-`.
    pub name: String,
    /// The JSON Schema.
    pub schema: Value,
}

/// How much a reasoning model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Not at all, where it can be switched off.
    None,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// A lot.
    High,
}

impl Request {
    /// How long an answer may be where nothing else is said.
    pub const MAX_TOKENS: u32 = 4096;

    /// Asks one thing.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self::conversation(vec![Message::user(prompt)])
    }

    /// Goes on with a conversation.
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
        }
    }

    /// Says who the model is to be.
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

    /// Adds words at which the answer ends.
    pub fn stop(mut self, words: impl Into<String>) -> Self {
        self.stop.push(words.into());
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

    /// Sets the form of the answer.
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

    /// Names requests that begin alike: see [`cache_key`](Self::cache_key).
    pub fn cache_key(mut self, key: impl Into<String>) -> Self {
        self.cache_key = Some(key.into());
        self
    }

    /// Keeps tools and system text in the provider's prompt cache: see [`cache_system`](Self::cache_system).
    pub fn cache_system(mut self) -> Self {
        self.cache_system = true;
        self
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
