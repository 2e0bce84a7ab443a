//! Access of a tool to its call, the agent's state and the run.

use std::sync::Arc;

use graph_core::{Context, NodeError, store::Store};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    AgentError, AgentState,
    dependencies::{Dep, Dependencies},
    message::ToolCall,
};

/// Gives a tool access to its call, to the agent's state and to the run.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ScriptedModel, ToolCall, ToolRuntime, tool};
/// use serde_json::json;
///
/// /// Returns the number of messages in the conversation.
/// #[tool]
/// async fn count_messages(runtime: &ToolRuntime) -> usize {
///     runtime.state().messages().len()
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let call = ToolCall::new("count_messages", json!({}), "call-1");
/// let model = ScriptedModel::new([AiMessage::new("").tool_call(call), AiMessage::new("Two.")]);
/// let agent = Agent::new(model).tools([count_messages()]).compile()?;
/// let outcome = agent.run("How many messages are there?").await?;
/// assert_eq!(outcome.messages[2].text(), "2");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ToolRuntime {
    call: Arc<ToolCall>,
    state: AgentState,
    context: Context,
    dependencies: Dependencies,
}

impl ToolRuntime {
    pub(crate) fn new(
        call: Arc<ToolCall>,
        state: AgentState,
        context: Context,
        dependencies: Dependencies,
    ) -> Self {
        Self { call, state, context, dependencies }
    }

    /// Returns the call.
    pub fn call(&self) -> &ToolCall {
        &self.call
    }

    /// Returns the state before the step. It contains the message with the call, but no results of that message's
    /// calls.
    pub fn state(&self) -> &AgentState {
        &self.state
    }

    /// Returns the context of the task.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Returns an idempotency key for external effects of this call. It stays the same when the call runs again, even
    /// in another process.
    ///
    /// [`Context::idempotency_key`] is the key of the task, which several calls share if a
    /// [`ToolNode`](crate::ToolNode) runs them in one task.
    pub fn idempotency_key(&self) -> String {
        format!("{}-{}", self.context.idempotency_key(), self.call.id())
    }

    /// Returns the agent's dependency of type `T`; see [`Agent::dependency`](crate::Agent::dependency).
    pub fn dependency<T: Send + Sync + 'static>(&self) -> Result<Dep<T>, AgentError> {
        self.dependencies.get()
    }

    /// Returns the long-term store of the graph, if it has one.
    pub fn store(&self) -> Option<&Arc<dyn Store>> {
        self.context.store()
    }

    /// Asks a person: interrupts the run with a question and returns the answer when the run is resumed.
    ///
    /// The first call returns an error, which the tool must return with `?`. When the run is resumed, the tool starts
    /// over.
    pub fn interrupt<A: DeserializeOwned>(&self, question: impl Serialize) -> Result<A, NodeError> {
        self.context.interrupt(question)
    }

    /// Sends a value to the custom stream.
    pub async fn emit(&self, value: impl Serialize) {
        self.context.emit(value).await;
    }
}
