//! Limits the number of model calls.

use async_trait::async_trait;
use graph_core::{Context, JsonFieldKind, NodeError};

use super::hooks::{Hooks, Middleware};
use crate::{
    AgentError, AgentState,
    command::{JumpTo, Update},
    message::Message,
    state::StateField,
};

const THREAD_COUNT: &str = "thread_model_call_count";
const RUN_COUNT: &str = "run_model_call_count";

/// Limits the number of model calls per thread and per run.
///
/// A model call counts once, even if middleware retries it.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ScriptedModel, ToolCall, middleware::ModelCallLimit, tool};
/// use serde_json::json;
///
/// /// Returns the time.
/// #[tool]
/// async fn clock() -> &'static str {
///     "noon"
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // This model never stops calling the tool.
/// let call = |id: u32| ToolCall::new("clock", json!({}), format!("call-{id}"));
/// let model = ScriptedModel::new((0..10).map(|id| AiMessage::new("").tool_call(call(id))));
/// let limit = ModelCallLimit::new(None, Some(3))?;
/// let agent = Agent::new(model).tools([clock()]).middleware(limit).compile()?;
/// let outcome = agent.run("What time is it?").await?;
/// assert_eq!(outcome.text(), "Model call limits exceeded: run limit (3/3)");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ModelCallLimit {
    thread_limit: Option<u64>,
    run_limit: Option<u64>,
    fails: bool,
}

impl ModelCallLimit {
    /// Creates the middleware. At least one of the two limits is required.
    pub fn new(thread_limit: Option<u64>, run_limit: Option<u64>) -> Result<Self, AgentError> {
        if thread_limit.is_none() && run_limit.is_none() {
            return Err(AgentError::value(
                "At least one limit must be specified (thread_limit or run_limit)",
            ));
        }
        Ok(Self { thread_limit, run_limit, fails: false })
    }

    /// Fails the run when a limit is reached, instead of ending it with a message.
    #[must_use]
    pub fn fail(mut self) -> Self {
        self.fails = true;
        self
    }

    /// Returns a description of the limits that have been reached, or `None` if no limit has been reached.
    fn reached(&self, state: &AgentState) -> Option<String> {
        let limits =
            [("thread", THREAD_COUNT, self.thread_limit), ("run", RUN_COUNT, self.run_limit)];
        let reached = limits.into_iter().filter_map(|(name, field, limit)| {
            let (count, limit) = (count(state, field), limit?);
            (count >= limit).then(|| format!("{name} limit ({count}/{limit})"))
        });
        let reached: Vec<_> = reached.collect();
        let text = || format!("Model call limits exceeded: {}", reached.join(", "));
        (!reached.is_empty()).then(text)
    }
}

fn count(state: &AgentState, field: &str) -> u64 {
    state.get_as(field).unwrap_or(0)
}

#[async_trait]
impl Middleware for ModelCallLimit {
    fn name(&self) -> String {
        "ModelCallLimitMiddleware".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().before_model([JumpTo::End]).after_model([])
    }

    fn state_fields(&self) -> Vec<StateField> {
        vec![
            StateField::private(THREAD_COUNT, JsonFieldKind::Last),
            StateField::private(RUN_COUNT, JsonFieldKind::Untracked),
        ]
    }

    async fn before_model(
        &self,
        state: &AgentState,
        _: &Context,
    ) -> Result<Option<Update>, NodeError> {
        match self.reached(state) {
            None => Ok(None),
            Some(text) if self.fails => {
                Err(AgentError::named("ModelCallLimitExceededError", text).into())
            }
            Some(text) => Ok(Some(Update::new().jump(JumpTo::End).messages([Message::ai(text)]))),
        }
    }

    async fn after_model(
        &self,
        state: &AgentState,
        _: &Context,
    ) -> Result<Option<Update>, NodeError> {
        let update = Update::new()
            .set(THREAD_COUNT, count(state, THREAD_COUNT) + 1)
            .set(RUN_COUNT, count(state, RUN_COUNT) + 1);
        Ok(Some(update))
    }
}
