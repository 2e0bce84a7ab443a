//! Retries of failed model and tool calls.

use async_trait::async_trait;
use graph_core::NodeError;

use super::{
    hooks::{Hooks, Middleware},
    tool_filter::ToolFilter,
};
use crate::{
    message::{AiMessage, ToolMessage},
    model::{ModelAnswer, ModelHandler, ModelRequest},
    retry::RetryOptions,
    tool::{ToolAnswer, ToolHandler, ToolRequest},
};

/// Retries failed model calls.
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

    /// Retries only calls of these tools.
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
        let answer = |text| ToolMessage::error(call, text).into();
        self.options.retry(|| next.call(request.clone()), subject, answer).await
    }
}
