//! Turns errors of tools into answers to the model.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use graph_core::NodeError;

use super::{
    hooks::{Hooks, Middleware},
    tool_filter::ToolFilter,
};
use crate::{
    error::is_failure,
    tool::{ToolAnswer, ToolHandler, ToolRequest, error_message},
};

/// Turns errors of tools into answers to the model.
///
/// ```
/// use graph_agents::{
///     Agent, AiMessage, ScriptedModel, ToolCall,
///     middleware::ToolErrorAnswers,
///     tool,
/// };
/// use graph_core::NodeError;
/// use serde_json::json;
///
/// /// Returns the weather in a city.
/// #[tool]
/// async fn weather(city: String) -> Result<String, NodeError> {
///     Err(format!("the weather service does not know {city}").into())
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let call = ToolCall::new("weather", json!({"city": "Atlantis"}), "call-1");
/// let model = ScriptedModel::new([AiMessage::new("").tool_call(call), AiMessage::new("Sorry.")]);
/// let agent = Agent::new(model)
///     .tools([weather()])
///     .middleware(ToolErrorAnswers::new(|error| Some(format!("Error: {error}"))))
///     .compile()?;
/// let outcome = agent.run("How is the weather in Atlantis?").await?;
/// assert_eq!(outcome.messages[2].text(), "Error: the weather service does not know Atlantis");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ToolErrorAnswers {
    answer: Arc<dyn Fn(&NodeError) -> Option<String> + Send + Sync>,
    tools: ToolFilter,
}

impl ToolErrorAnswers {
    /// Creates the middleware from a function that returns the answer to the model, or `None` to return the error.
    pub fn new(answer: impl Fn(&NodeError) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { answer: Arc::new(answer), tools: ToolFilter::default() }
    }

    /// Answers only errors of these tools.
    #[must_use]
    pub fn tools<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.tools = ToolFilter::only(names);
        self
    }
}

impl fmt::Debug for ToolErrorAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolErrorAnswers").field("tools", &self.tools).finish_non_exhaustive()
    }
}

#[async_trait]
impl Middleware for ToolErrorAnswers {
    fn name(&self) -> String {
        "ToolErrorMiddleware".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().wrap_tool_call()
    }

    async fn wrap_tool_call(
        &self,
        request: ToolRequest,
        next: ToolHandler,
    ) -> Result<ToolAnswer, NodeError> {
        let (call, tool) = (request.call.clone(), request.tool.clone());
        let covered = self.tools.includes(&call.name);
        next.call(request).await.or_else(|error| {
            let answer = if covered && is_failure(&error) { (self.answer)(&error) } else { None };
            let message = |text| error_message(tool.as_ref(), &call, text).into();
            answer.map(message).ok_or(error)
        })
    }
}
