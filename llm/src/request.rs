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
    /// Whether the model may call several tools in one response. `None`: the provider's default. Gemini and Ollama have
    /// no such setting and ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// Tools that the provider executes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provider_tools: Vec<ProviderTool>,
    /// Number of likely alternatives to report for each token of the response, besides the token's own log probability.
    /// `None`: no log probabilities are reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<u8>,
    /// JSON Schema that the response must conform to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
    /// Whether the provider must restrict the response to the schema.
    ///
    /// With `true`, a request fails if the provider cannot enforce its schema. With `false`, OpenAI's protocols use
    /// schemas without strict mode. `None`: the schema is enforced if the provider can enforce it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict_schema: Option<bool>,
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
///
/// ```
/// use llm::{Llm, Message, Part, Reply, Request, Scripted, Tool};
/// use serde_json::json;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let weather = Tool::new("weather", "Returns the weather in a city.", json!({
///     "type": "object",
///     "properties": {"city": {"type": "string"}},
///     "required": ["city"],
/// }));
/// # let llm = Llm::new(Scripted::replies("parrot", [
/// #     Reply::ToolCall { name: "weather".into(), arguments: json!({"city": "Oslo"}) },
/// #     Reply::from("It is sunny in Oslo."),
/// # ]));
/// let mut request = Request::new("How is the weather in Oslo?").tool(weather);
///
/// let response = llm.generate(request.clone()).await?;
/// let call = response.tool_calls().next().expect("the model calls the tool").clone();
/// assert_eq!(call.arguments, json!({"city": "Oslo"}));
///
/// // Append the call and its result, and ask the model again.
/// request.messages.push(response.into_message());
/// request.messages.push(Message::tool_result(&call, "sunny"));
/// assert_eq!(llm.generate(request).await?.text(), "It is sunny in Oslo.");
/// # Ok::<(), llm::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Name of the tool.
    pub name: String,
    /// Description for the model: what the tool does and when to use it.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// Whether the provider restricts the arguments to the schema. OpenAI then requires all properties. Providers
    /// without this feature ignore it, so the caller has to validate arguments in any case.
    #[serde(default, skip_serializing_if = "is_false")]
    pub strict: bool,
}

/// A tool that the provider executes while it generates the response. The response contains only the model's text, not
/// the tool's results.
///
/// ```
/// use llm::{ProviderTool, Request, WebSearch};
///
/// let search = WebSearch { max_uses: Some(3), ..WebSearch::default() };
/// let request = Request::new("What is new in Rust?").provider_tool(ProviderTool::WebSearch(search));
/// # let _ = request;
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProviderTool {
    /// A web search. Supported by Anthropic, OpenAI's Responses API, Gemini, Groq and OpenRouter.
    WebSearch(WebSearch),
    /// Execution of programs that the model writes. Supported by Anthropic, OpenAI's Responses API, Gemini and Groq.
    CodeExecution,
    /// Another tool, in the provider's format.
    Custom(Value),
}

impl ProviderTool {
    /// Returns the name of the tool: `web_search`, `code_execution`, or the `name`, the `type` or the first key of a
    /// custom definition.
    ///
    /// ```
    /// use llm::ProviderTool;
    /// use serde_json::json;
    ///
    /// assert_eq!(ProviderTool::CodeExecution.name(), "code_execution");
    /// let maps = |definition| ProviderTool::Custom(definition).name().to_owned();
    /// assert_eq!(maps(json!({"type": "maps_20260101", "name": "maps"})), "maps");
    /// assert_eq!(maps(json!({"type": "maps_20260101"})), "maps_20260101");
    /// assert_eq!(maps(json!({"googleMaps": {}})), "googleMaps");
    /// ```
    pub fn name(&self) -> &str {
        match self {
            Self::WebSearch(_) => "web_search",
            Self::CodeExecution => "code_execution",
            Self::Custom(definition) => {
                let text = |key: &str| definition[key].as_str();
                let first_key = || Some(definition.as_object()?.keys().next()?.as_str());
                text("name").or_else(|| text("type")).or_else(first_key).unwrap_or("custom")
            }
        }
    }
}

/// Options of a web search. A request fails if the provider does not support an option that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebSearch {
    /// Maximum number of searches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_uses: Option<u32>,
    /// Domains to which the search is restricted. Empty: all domains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_domains: Vec<String>,
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
            parallel_tool_calls: None,
            provider_tools: Vec::new(),
            logprobs: None,
            schema: None,
            strict_schema: None,
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

    /// Sets [`parallel_tool_calls`](Self::parallel_tool_calls).
    pub fn parallel_tool_calls(mut self, allowed: bool) -> Self {
        self.parallel_tool_calls = Some(allowed);
        self
    }

    /// Adds a tool that the provider executes.
    pub fn provider_tool(mut self, tool: ProviderTool) -> Self {
        self.provider_tools.push(tool);
        self
    }

    /// Sets [`logprobs`](Self::logprobs).
    pub fn logprobs(mut self, alternatives: u8) -> Self {
        self.logprobs = Some(alternatives);
        self
    }

    /// Sets the schema of the response.
    pub fn schema(mut self, schema: Schema) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Sets [`strict_schema`](Self::strict_schema).
    pub fn strict_schema(mut self, strict: bool) -> Self {
        self.strict_schema = Some(strict);
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

impl Tool {
    /// Creates a tool that is not strict.
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self { name: name.into(), description: description.into(), parameters, strict: false }
    }

    /// Sets [`strict`](Self::strict).
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }
}

impl ToolChoice {
    fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}
