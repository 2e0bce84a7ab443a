//! Retries of failed model and tool calls.

use async_trait::async_trait;
use graph_core::NodeError;

use super::{
    hooks::{Hooks, Middleware},
    tool_filter::ToolFilter,
};
use crate::{
    message::AiMessage,
    model::{ModelAnswer, ModelHandler, ModelRequest},
    retry::RetryOptions,
    tool::{ToolAnswer, ToolHandler, ToolRequest, error_message},
};

/// Retries failed model calls.
///
/// ```
/// use std::time::Duration;
/// use graph_agents::{
///     Agent, LlmModel,
///     middleware::{ModelRetry, RetryOptions},
/// };
/// use llm::{ErrorKind, Llm, Reply, Scripted};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let overloaded_once = [Reply::from(ErrorKind::Overloaded), Reply::from("Hello!")];
/// let model = LlmModel::new(Llm::new(Scripted::replies("parrot", overloaded_once)));
/// let options = RetryOptions { initial_delay: Duration::from_millis(1), ..RetryOptions::default() };
/// let agent = Agent::new(model).middleware(ModelRetry::new(options)).compile()?;
/// assert_eq!(agent.run("Hi").await?.text(), "Hello!");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ModelRetry {
    options: RetryOptions,
}

impl ModelRetry {
    /// Creates the middleware.
    pub fn new(options: RetryOptions) -> Self {
        Self { options }
    }
}

#[async_trait]
impl Middleware for ModelRetry {
    fn name(&self) -> String {
        "ModelRetryMiddleware".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().wrap_model_call()
    }

    async fn wrap_model_call(
        &self,
        request: ModelRequest,
        next: ModelHandler,
    ) -> Result<ModelAnswer, NodeError> {
        let subject = |cause: &str| format!("Model call {cause}");
        let answer = |text| AiMessage::new(text).into();
        self.options.retry(|| next.call(request.clone()), subject, answer).await
    }
}

/// Retries failed tool calls.
///
/// ```
/// use graph_agents::{
///     Agent, AiMessage, ScriptedModel,
///     middleware::{OnFailure, RetryOptions, ToolRetry},
/// };
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Up to five retries of `weather` and `news`; then the run fails with the last error.
/// let options =
///     RetryOptions { max_retries: 5, on_failure: OnFailure::Fail, ..RetryOptions::default() };
/// let agent = Agent::new(ScriptedModel::new([AiMessage::new("Hello!")]))
///     .middleware(ToolRetry::new(options).tools(["weather", "news"]))
///     .compile()?;
/// assert_eq!(agent.run("Hi").await?.text(), "Hello!");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ToolRetry {
    options: RetryOptions,
    tools: ToolFilter,
}

impl ToolRetry {
    /// Creates the middleware.
    pub fn new(options: RetryOptions) -> Self {
        Self { options, tools: ToolFilter::default() }
    }

    /// Retries only calls to these tools.
    #[must_use]
    pub fn tools<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.tools = ToolFilter::only(names);
        self
    }
}

#[async_trait]
impl Middleware for ToolRetry {
    fn name(&self) -> String {
        "ToolRetryMiddleware".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().wrap_tool_call()
    }

    async fn wrap_tool_call(
        &self,
        request: ToolRequest,
        next: ToolHandler,
    ) -> Result<ToolAnswer, NodeError> {
        if !self.tools.includes(&request.call.name) {
            return next.call(request).await;
        }
        let call = &request.call;
        let subject = |cause: &str| format!("Tool '{}' {cause}. Please try again.", call.name);
        let answer = |text| error_message(request.tool.as_ref(), call, text).into();
        self.options.retry(|| next.call(request.clone()), subject, answer).await
    }
}
