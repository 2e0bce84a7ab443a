//! Execution policy of a tool.

use std::{future::Future, time::Duration};

use graph_core::NodeError;
use serde_json::{Map, Value};

use super::{
    cache::ToolCache,
    errors::ToolErrors,
    limit::{MAX_OUTPUT, blocks_as_text, mark_untrusted, truncate},
    output::ToolOutput,
};
use crate::{
    AgentError,
    message::{Content, ToolCall, ToolMessage},
    retry::RetryOptions,
};

/// Time limit, retries, cache, errors and output of a tool.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    /// Maximum duration of one attempt.
    pub(super) timeout: Option<Duration>,
    pub(super) retry: Option<RetryOptions>,
    pub(super) cache: Option<ToolCache>,
    /// `None`: the policy of the tool node applies.
    pub(super) errors: Option<ToolErrors>,
    /// Maximum number of characters that the model sees of a result.
    pub(super) max_output: usize,
    pub(super) untrusted: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            timeout: None,
            retry: None,
            cache: None,
            errors: None,
            max_output: MAX_OUTPUT,
            untrusted: false,
        }
    }
}

impl Policy {
    /// Executes a call: returns the cached result, or makes attempts until one succeeds or the retries are used up.
    pub(super) async fn run<F>(
        &self,
        call: &ToolCall,
        args: &Map<String, Value>,
        attempt: impl Fn() -> F,
    ) -> Result<ToolOutput, NodeError>
    where
        F: Future<Output = Result<ToolOutput, NodeError>>,
    {
        if let Some(known) = self.cache.as_ref().and_then(|it| it.get(&call.name, args)) {
            return Ok(known);
        }
        let attempt = || with_timeout(self.timeout, &call.name, attempt());
        let output = match &self.retry {
            None => attempt().await?,
            Some(options) => {
                let subject =
                    |cause: &str| format!("Tool '{}' {cause}. Please try again.", call.name);
                let answer = |text| ToolOutput::Message(ToolMessage::error(call, text));
                options.retry(attempt, subject, answer).await?
            }
        };
        if let Some(cache) = &self.cache {
            cache.put(&call.name, args, &output);
        }
        Ok(output)
    }

    /// Truncates a text without marking it as untrusted. Used for texts that this program has written.
    pub(super) fn truncate(&self, content: Content) -> Content {
        truncate(content, self.max_output)
    }

    /// Truncates and marks a result for the model. A result that needs neither is returned unchanged.
    pub(super) fn limit(&self, content: Content, tool: &str) -> Content {
        if self.untrusted {
            return mark_untrusted(self.truncate(blocks_as_text(content)), tool);
        }
        let Content::Blocks(_) = content else { return self.truncate(content) };
        let text = blocks_as_text(content.clone());
        match text.text().chars().count() > self.max_output {
            true => self.truncate(text),
            false => content,
        }
    }
}

async fn with_timeout(
    limit: Option<Duration>,
    tool: &str,
    attempt: impl Future<Output = Result<ToolOutput, NodeError>>,
) -> Result<ToolOutput, NodeError> {
    let Some(limit) = limit else { return attempt.await };
    tokio::time::timeout(limit, attempt).await.unwrap_or_else(|_| {
        let problem = format!("tool `{tool}` did not finish within {limit:?}");
        Err(AgentError::named("TimeoutError", problem).into())
    })
}
