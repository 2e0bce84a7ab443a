//! A model with prepared answers.

use std::{collections::VecDeque, sync::Mutex};

use async_trait::async_trait;
use graph_core::NodeError;

use super::chat::{ChatModel, ChunkSink, Prompt};
use crate::{AgentError, lock::lock, message::AiMessage};

/// A model that returns prepared answers in order, for tests and examples.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ScriptedModel, ToolCall, tool};
/// use serde_json::json;
///
/// /// Returns the time.
/// #[tool]
/// async fn clock() -> &'static str {
///     "noon"
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new([
///     AiMessage::new("").tool_call(ToolCall::new("clock", json!({}), "call-1")),
///     AiMessage::new("It is noon."),
/// ]);
/// let agent = Agent::new(model).tools([clock()]).compile()?;
/// assert_eq!(agent.run("What time is it?").await?.text(), "It is noon.");
/// // The script has no third answer.
/// assert!(agent.run("And now?").await.is_err());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct ScriptedModel {
    answers: Mutex<VecDeque<AiMessage>>,
}

impl ScriptedModel {
    /// Creates a model with these answers.
    pub fn new<M: Into<AiMessage>>(answers: impl IntoIterator<Item = M>) -> Self {
        Self { answers: Mutex::new(answers.into_iter().map(Into::into).collect()) }
    }
}

#[async_trait]
impl ChatModel for ScriptedModel {
    async fn call(&self, _: &Prompt, _: &mut ChunkSink<'_>) -> Result<AiMessage, NodeError> {
        let used_up =
            || AgentError::value("the scripted model has no answers left; add more answers");
        Ok(lock(&self.answers).pop_front().ok_or_else(used_up)?)
    }
}
