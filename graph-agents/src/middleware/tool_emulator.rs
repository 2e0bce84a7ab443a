//! Lets a model answer in place of tools.

use std::sync::Arc;

use async_trait::async_trait;
use graph_core::NodeError;

use super::{
    hooks::{Hooks, Middleware, ModelWrapper},
    tool_filter::ToolFilter,
};
use crate::{
    message::{Message, ToolMessage},
    model::{ChatModel, ChunkSink, Prompt, SharedModel},
    notation,
    tool::{Tool, ToolAnswer, ToolHandler, ToolRequest},
};

/// Lets a model answer in place of tools, to try an agent out before its tools exist.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ScriptedModel, ToolCall, middleware::ToolEmulator, tool};
/// use serde_json::json;
///
/// /// Returns the weather in a city.
/// #[tool]
/// async fn weather(city: String) -> String {
///     format!("There is no forecast for {city} yet.")
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let emulator = ScriptedModel::new([AiMessage::new("It rains in Rome.")]);
/// let call = ToolCall::new("weather", json!({"city": "Rome"}), "call-1");
/// let model = ScriptedModel::new([AiMessage::new("").tool_call(call), AiMessage::new("Yes.")]);
/// let agent = Agent::new(model)
///     .tools([weather()])
///     .middleware(ToolEmulator::new(emulator))
///     .compile()?;
/// let outcome = agent.run("Does it rain in Rome?").await?;
/// assert_eq!(outcome.messages[2].text(), "It rains in Rome.");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ToolEmulator {
    model: SharedModel,
    tools: ToolFilter,
}

impl ToolEmulator {
    /// Creates the middleware. The model answers all calls, even of tools that do not exist.
    pub fn new(model: impl ChatModel + 'static) -> Self {
        Self { model: Arc::new(model), tools: ToolFilter::default() }
    }

    /// Answers only calls to these tools.
    #[must_use]
    pub fn tools<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.tools = ToolFilter::only(names);
        self
    }
}

#[async_trait]
impl Middleware for ToolEmulator {
    fn name(&self) -> String {
        "LLMToolEmulator".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().wrap_tool_call()
    }

    fn with_wrapped_models(&self, wrap: &ModelWrapper) -> Option<Arc<dyn Middleware>> {
        Some(Arc::new(Self { model: wrap(self.model.clone()), ..self.clone() }))
    }

    async fn wrap_tool_call(
        &self,
        request: ToolRequest,
        next: ToolHandler,
    ) -> Result<ToolAnswer, NodeError> {
        let call = &request.call;
        if !self.tools.includes(&call.name) {
            return next.call(request).await;
        }
        let text = format!(
            "You play the tool `{}` in a test. Description of the tool: {}\nArguments: {}\n\nAnswer with a realistic \
             result of the tool and nothing else.",
            call.name,
            request.tool.as_ref().map_or("none", Tool::description),
            notation::python_object(&call.args)
        );
        let prompt = Prompt { messages: vec![Message::human(text)].into(), ..Prompt::default() };
        let answer = self.model.call(&prompt, &mut ChunkSink::none()).await?;
        Ok(ToolMessage::success(call, answer.content).into())
    }
}
