//! Records model and tool calls to a file, and replays them.

mod key;
mod recording;
mod tool_answer;

use std::{io, path::Path, sync::Arc};

use async_trait::async_trait;
use graph_core::NodeError;
use recording::Recording;
use tool_answer::{Ids, RecordedCall};

use super::hooks::{Hooks, Middleware};
use crate::{
    message::AiMessage,
    model::{ChatModel, ChunkSink, ModelProfile, Prompt, SharedModel},
    tool::{ToolAnswer, ToolHandler, ToolRequest},
};

/// Records the model and tool calls of an agent to a file, or answers them from such a file without calling a model or
/// a tool.
///
/// Model calls by other middleware of the agent, such as calls that write summaries or that select or emulate tools,
/// are recorded too. Errors are not recorded.
///
/// A call is identified by a hash of its request, in which ids are ignored; equal requests are answered in the order in
/// which they were recorded. A replayed call that is not in the file fails. The models of the replay are never called,
/// but they need the [profile](ModelProfile) of the recorded ones, because requests depend on it.
///
/// Add it after other middleware, so that the other middleware also wraps replayed tool calls, but before a
/// [`MoneyBudget`](super::MoneyBudget), so that replayed calls cost nothing. The file contains the conversation in
/// plain text.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ScriptedModel, middleware::RecordReplay};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let file = dir.path().join("calls.jsonl");
/// let model = ScriptedModel::new([AiMessage::new("Hello!")]);
/// let agent = Agent::new(model).middleware(RecordReplay::record(&file)?).compile()?;
/// agent.run("Hi").await?;
///
/// // The model of the replay is never called.
/// let no_model = ScriptedModel::new(Vec::<AiMessage>::new());
/// let agent = Agent::new(no_model).middleware(RecordReplay::replay(&file)?).compile()?;
/// assert_eq!(agent.run("Hi").await?.text(), "Hello!");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct RecordReplay {
    recording: Recording,
}

impl RecordReplay {
    /// Records calls. Appends to the file, and creates it if it is missing.
    pub fn record(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self { recording: Recording::write(path.as_ref())? })
    }

    /// Replays the calls in the file.
    pub fn replay(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self { recording: Recording::replay(path.as_ref())? })
    }
}

#[async_trait]
impl Middleware for RecordReplay {
    fn name(&self) -> String {
        "RecordReplay".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().wrap_model().wrap_tool_call()
    }

    fn wrap_model(&self, model: SharedModel) -> SharedModel {
        Arc::new(RecordedModel { model, recording: self.recording.clone() })
    }

    async fn wrap_tool_call(
        &self,
        request: ToolRequest,
        next: ToolHandler,
    ) -> Result<ToolAnswer, NodeError> {
        let (key, ids) = (key::of_tool_call(&request), Ids::of(&request));
        let name = format!("call of tool `{}`", request.call.name);
        let call = async { RecordedCall::new(next.call(request).await?, ids.clone()) };
        Ok(self.recording.answer(key, &name, call).await?.into_answer(&ids))
    }
}

/// A model whose calls are recorded or replayed.
#[derive(Debug)]
struct RecordedModel {
    model: SharedModel,
    recording: Recording,
}

#[async_trait]
impl ChatModel for RecordedModel {
    fn profile(&self) -> ModelProfile {
        self.model.profile()
    }

    async fn call(
        &self,
        prompt: &Prompt,
        chunks: &mut ChunkSink<'_>,
    ) -> Result<AiMessage, NodeError> {
        let call = self.model.call(prompt, chunks);
        self.recording.answer(key::of_prompt(prompt), "model call", call).await
    }
}
