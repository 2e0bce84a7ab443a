//! Clears old tool results from the conversation that is sent to the model.

use async_trait::async_trait;
use graph_core::NodeError;
use serde_json::Map;

use super::hooks::{Hooks, Middleware};
use crate::{
    message::{Message, TokenCounter},
    model::{ModelAnswer, ModelHandler, ModelRequest},
};

/// Clears old tool results before a model call. The state keeps them.
#[derive(Clone, Debug)]
pub struct ClearToolUses {
    /// Number of tokens above which results are cleared.
    pub trigger: usize,
    /// Number of saved tokens at which clearing stops. 0: clears all results except those to keep.
    pub clear_at_least: usize,
    /// Number of newest results that are kept.
    pub keep: usize,
    /// Whether the arguments of a call are cleared together with its result.
    pub clear_tool_inputs: bool,
    /// Tools whose results are kept.
    pub exclude_tools: Vec<String>,
    /// Text in place of a cleared result.
    pub placeholder: String,
}

impl Default for ClearToolUses {
    fn default() -> Self {
        Self {
            trigger: 100_000,
            clear_at_least: 0,
            keep: 3,
            clear_tool_inputs: false,
            exclude_tools: Vec::new(),
            placeholder: "[cleared]".to_owned(),
        }
    }
}

impl ClearToolUses {
    fn apply(
        &self,
        messages: &mut [Message],
        cleared: &mut [bool],
        count: impl Fn(&[Message]) -> usize,
    ) {
        let before = count(messages);
        if before <= self.trigger {
            return;
        }
        let results: Vec<usize> =
            (0..messages.len()).filter(|it| messages[*it].as_tool().is_some()).collect();
        for &index in &results[..results.len().saturating_sub(self.keep)] {
            if cleared[index] || !self.clear(messages, index) {
                continue;
            }
            cleared[index] = true;
            let saved = before.saturating_sub(count(messages));
            if self.clear_at_least > 0 && saved >= self.clear_at_least {
                break;
            }
        }
    }

    /// Clears a result. Returns `false` if the tool is excluded or the last AI message before the result does not
    /// contain the call.
    fn clear(&self, messages: &mut [Message], index: usize) -> bool {
        let (before, rest) = messages.split_at_mut(index);
        let Some(Message::Tool(result)) = rest.first_mut() else { return false };
        let newest = before.iter_mut().rev().find_map(|it| match it {
            Message::Ai(message) => Some(message),
            _ => None,
        });
        let call = newest
            .and_then(|it| it.tool_calls.iter_mut().find(|call| call.id() == result.tool_call_id));
        let Some(call) = call else { return false };
        if self.exclude_tools.contains(result.name.as_ref().unwrap_or(&call.name)) {
            return false;
        }
        result.content = self.placeholder.as_str().into();
        result.artifact = None;
        if self.clear_tool_inputs {
            call.args = Map::new();
        }
        true
    }
}

/// Edits the conversation before each model call, without changing the state.
///
/// ```
/// use graph_agents::{
///     Agent, AiMessage, ScriptedModel,
///     middleware::{ClearToolUses, ContextEditing},
/// };
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Above 50,000 tokens, clears all tool results except the five newest.
/// let edit = ClearToolUses { trigger: 50_000, keep: 5, ..ClearToolUses::default() };
/// let agent = Agent::new(ScriptedModel::new([AiMessage::new("Hello!")]))
///     .middleware(ContextEditing::new([edit]))
///     .compile()?;
/// assert_eq!(agent.run("Hi").await?.text(), "Hello!");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ContextEditing {
    edits: Vec<ClearToolUses>,
    counter: TokenCounter,
}

impl ContextEditing {
    /// Creates the middleware with edits that are applied in order.
    pub fn new(edits: impl IntoIterator<Item = ClearToolUses>) -> Self {
        Self { edits: edits.into_iter().collect(), counter: TokenCounter::default() }
    }

    /// Sets how tokens are counted.
    #[must_use]
    pub fn counter(mut self, counter: TokenCounter) -> Self {
        self.counter = counter;
        self
    }
}

#[async_trait]
impl Middleware for ContextEditing {
    fn name(&self) -> String {
        "ContextEditingMiddleware".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().wrap_model_call()
    }

    async fn wrap_model_call(
        &self,
        mut request: ModelRequest,
        next: ModelHandler,
    ) -> Result<ModelAnswer, NodeError> {
        let system = request.system.clone().map(Message::system);
        let count = |messages: &[Message]| {
            let all: Vec<_> = system.iter().chain(messages).cloned().collect();
            self.counter.count(&all)
        };
        let mut cleared = vec![false; request.messages.len()];
        for edit in &self.edits {
            edit.apply(&mut request.messages, &mut cleared, count);
        }
        next.call(request).await
    }
}
