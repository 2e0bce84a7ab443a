//! The agent builder.

use std::sync::Arc;

use graph_core::{Checkpointer, IntoShared, Stops, store::Store};
use llm::ProviderTool;
use schemars::JsonSchema;
use serde_json::{Map, Value};

use crate::{
    dependencies::Dependencies,
    message::Content,
    middleware::Middleware,
    model::{ChatModel, SharedModel},
    response::ResponseFormat,
    state::StateField,
    tool::Tool,
};

/// Builder of an agent: a model that calls tools in a loop until it answers.
///
/// The agent compiles to an ordinary graph with a JSON state, so it can be drawn, streamed, checkpointed, and used as a
/// subgraph.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ScriptedModel, Tool, ToolCall};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new([
///     AiMessage::new("").tool_call(ToolCall::new("weather", json!({}), "call-1")),
///     AiMessage::new("It rains."),
/// ]);
/// let weather = Tool::dynamic("weather", "Returns the weather.", json!({}), |_, _| async { "rain" });
/// let agent = Agent::new(model).tools([weather]).prompt("Be brief.").compile()?;
/// let answer = agent.run("How is the weather?").await?;
/// assert_eq!(answer.text(), "It rains.");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Agent {
    pub(super) model: SharedModel,
    pub(super) name: Option<String>,
    pub(super) tools: Vec<Tool>,
    pub(super) provider_tools: Vec<ProviderTool>,
    pub(super) prompt: Option<Content>,
    pub(super) middleware: Vec<Arc<dyn Middleware>>,
    pub(super) response: Option<ResponseFormat>,
    pub(super) fields: Vec<StateField>,
    pub(super) stop_before: Stops,
    pub(super) stop_after: Stops,
    pub(super) checkpointer: Option<Arc<dyn Checkpointer>>,
    pub(super) store: Option<Arc<dyn Store>>,
    pub(super) dependencies: Dependencies,
    pub(super) settings: Map<String, Value>,
    pub(super) malformed_call_retries: usize,
}

impl Agent {
    /// Creates an agent with a model.
    pub fn new(model: impl ChatModel + 'static) -> Self {
        Self::with_shared_model(Arc::new(model))
    }

    /// Creates an agent with a model that other agents may share.
    pub fn with_shared_model(model: SharedModel) -> Self {
        Self {
            model,
            name: None,
            tools: Vec::new(),
            provider_tools: Vec::new(),
            prompt: None,
            middleware: Vec::new(),
            response: None,
            fields: Vec::new(),
            stop_before: Stops::None,
            stop_after: Stops::None,
            checkpointer: None,
            store: None,
            dependencies: Dependencies::default(),
            settings: Map::new(),
            malformed_call_retries: Self::MALFORMED_CALL_RETRIES,
        }
    }

    /// Sets the name of the agent. Messages from its model carry this name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Returns the name.
    pub fn agent_name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Adds tools.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Sets the system prompt. It precedes the messages of each model call and is not part of the state.
    pub fn prompt(mut self, prompt: impl Into<Content>) -> Self {
        self.prompt = Some(prompt.into());
        self
    }

    /// Adds middleware. The first one added is the outermost.
    pub fn middleware(self, middleware: impl Middleware + 'static) -> Self {
        self.shared_middleware(Arc::new(middleware))
    }

    /// Adds middleware that other agents may share. The first one added is the outermost.
    pub fn shared_middleware(mut self, middleware: Arc<dyn Middleware>) -> Self {
        self.middleware.push(middleware);
        self
    }

    /// Requests a structured response of type `T`.
    pub fn response<T: JsonSchema>(self) -> Self {
        self.response_format(ResponseFormat::of::<T>())
    }

    /// Requests a structured response.
    pub fn response_format(mut self, format: ResponseFormat) -> Self {
        self.response = Some(format);
        self
    }

    /// Adds a value that tools and middleware can use. It replaces a value of the same type. A tool declares a
    /// parameter of type [`Dep<T>`](crate::Dep); middleware finds the values in its requests.
    pub fn dependency<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.dependencies = self.dependencies.with(value);
        self
    }

    /// Adds the dependencies of another agent, except those of a type that this agent already has.
    pub(crate) fn inherit_dependencies(mut self, from: &Self) -> Self {
        self.dependencies = self.dependencies.or(&from.dependencies);
        self
    }

    /// Replaces the model with the model that `wrap` returns.
    pub(crate) fn map_model(mut self, wrap: impl FnOnce(SharedModel) -> SharedModel) -> Self {
        self.model = wrap(self.model);
        self
    }

    /// Adds a field to the state, replacing a field with the same name.
    pub fn state_field(mut self, field: StateField) -> Self {
        self.fields.push(field);
        self
    }

    /// Stops runs before these nodes.
    pub fn stop_before(mut self, stops: Stops) -> Self {
        self.stop_before = stops;
        self
    }

    /// Stops runs after these nodes.
    pub fn stop_after(mut self, stops: Stops) -> Self {
        self.stop_after = stops;
        self
    }

    /// Sets the checkpointer that stores the agent's threads: a value, an `Arc` of it, or an `Arc<dyn Checkpointer>`.
    pub fn checkpointer<M>(self, checkpointer: impl IntoShared<dyn Checkpointer, M>) -> Self {
        self.shared_checkpointer(checkpointer.into_shared())
    }

    /// Like [`checkpointer`](Self::checkpointer), with a parameter type that helps type inference.
    pub fn shared_checkpointer(mut self, checkpointer: Arc<dyn Checkpointer>) -> Self {
        self.checkpointer = Some(checkpointer);
        self
    }

    /// Sets the long-term store: a value, an `Arc` of it, or an `Arc<dyn Store>`. Tools access it with
    /// [`ToolRuntime::store`](crate::ToolRuntime::store).
    pub fn store<M>(mut self, store: impl IntoShared<dyn Store, M>) -> Self {
        self.store = Some(store.into_shared());
        self
    }
}
