//! Limits the number of tool calls.

use std::collections::BTreeMap;

use async_trait::async_trait;
use graph_core::{Context, JsonFieldKind, NodeError};

use super::hooks::{Hooks, Middleware};
use crate::{
    AgentError, AgentState,
    command::{JumpTo, Update},
    message::{Message, ToolCall, ToolMessage, last_ai},
    state::StateField,
};

const THREAD_COUNT: &str = "thread_tool_call_count";
const RUN_COUNT: &str = "run_tool_call_count";
const STOPPED: &str = "Execution stopped before this tool call could run because another tool call in the same batch \
                       exceeded the limit.";

/// Limits the number of tool calls per thread and per run, for one tool or for all.
///
/// ```
/// use graph_agents::{
///     Agent, AiMessage, ScriptedModel, ToolCall,
///     middleware::{ToolCallLimit, ToolLimitExit},
///     tool,
/// };
/// use serde_json::json;
///
/// /// Returns the time.
/// #[tool]
/// async fn clock() -> &'static str {
///     "noon"
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let call = |id| AiMessage::new("").tool_call(ToolCall::new("clock", json!({}), id));
/// let model = ScriptedModel::new([call("1"), call("2"), call("3")]);
/// let limit = ToolCallLimit::new(None, Some(2))?.tool("clock").exit(ToolLimitExit::End);
/// let agent = Agent::new(model).tools([clock()]).middleware(limit).compile()?;
/// let outcome = agent.run("What time is it?").await?;
/// assert!(outcome.text().contains("limit"), "{}", outcome.text());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ToolCallLimit {
    tool: Option<String>,
    thread_limit: Option<u64>,
    run_limit: Option<u64>,
    exit: ToolLimitExit,
}

/// Handling of a call that exceeds the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolLimitExit {
    /// The call is answered with an error; other calls run and the loop continues.
    #[default]
    Continue,
    /// All calls of the message are answered with errors, and the run ends.
    End,
    /// The run fails.
    Fail,
}

impl ToolCallLimit {
    /// Creates the middleware. At least one of the two limits is required.
    pub fn new(thread_limit: Option<u64>, run_limit: Option<u64>) -> Result<Self, AgentError> {
        match (thread_limit, run_limit) {
            (None, None) => Err(AgentError::value(
                "At least one limit must be specified (thread_limit or run_limit)",
            )),
            (Some(thread), Some(run)) if run > thread => Err(AgentError::value(format!(
                "run_limit ({run}) cannot exceed thread_limit ({thread}). The run limit should be less than or equal \
                 to the thread limit."
            ))),
            _ => Ok(Self { tool: None, thread_limit, run_limit, exit: ToolLimitExit::Continue }),
        }
    }

    /// Counts only calls to this tool.
    #[must_use]
    pub fn tool(mut self, name: impl Into<String>) -> Self {
        self.tool = Some(name.into());
        self
    }

    /// Sets the handling of a call that exceeds the limit.
    #[must_use]
    pub fn exit(mut self, exit: ToolLimitExit) -> Self {
        self.exit = exit;
        self
    }

    fn count_key(&self) -> &str {
        self.tool.as_deref().unwrap_or("__all__")
    }

    fn is_over(&self, thread: u64, run: u64) -> bool {
        self.thread_limit.is_some_and(|limit| thread > limit)
            || self.run_limit.is_some_and(|limit| run > limit)
    }

    fn reached_text(&self, thread: u64, run: u64) -> String {
        let limits = [("thread", thread, self.thread_limit), ("run", run, self.run_limit)];
        let exceeded = limits.into_iter().filter_map(|(name, count, limit)| {
            let limit = limit.filter(|limit| count > *limit)?;
            Some(format!("{name} limit exceeded ({count}/{limit} calls)"))
        });
        let tool = self.tool.as_ref().map_or("Tool".to_owned(), |it| format!("'{it}' tool"));
        format!("{tool} call limit reached: {}.", exceeded.collect::<Vec<_>>().join(" and "))
    }

    fn blocked_text(&self) -> String {
        match &self.tool {
            Some(tool) => format!("Tool call limit exceeded. Do not call '{tool}' again."),
            None => "Tool call limit exceeded. Do not make additional tool calls.".to_owned(),
        }
    }
}

type Counts = BTreeMap<String, u64>;

#[async_trait]
impl Middleware for ToolCallLimit {
    fn name(&self) -> String {
        match &self.tool {
            Some(tool) => format!("ToolCallLimitMiddleware[{tool}]"),
            None => "ToolCallLimitMiddleware".to_owned(),
        }
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().after_model([JumpTo::End])
    }

    fn state_fields(&self) -> Vec<StateField> {
        vec![
            StateField::private(THREAD_COUNT, JsonFieldKind::Last),
            StateField::private(RUN_COUNT, JsonFieldKind::Untracked),
        ]
    }

    async fn after_model(
        &self,
        state: &AgentState,
        _: &Context,
    ) -> Result<Option<Update>, NodeError> {
        let Some((newest, _)) = last_ai(state.messages()) else { return Ok(None) };
        let mut threads: Counts = state.get_as(THREAD_COUNT).unwrap_or_default();
        let mut runs: Counts = state.get_as(RUN_COUNT).unwrap_or_default();
        let key = self.count_key();
        let thread_before = threads.get(key).copied().unwrap_or(0);
        let (mut thread, mut run) = (thread_before, runs.get(key).copied().unwrap_or(0));
        let counts = |it: &&ToolCall| self.tool.as_ref().is_none_or(|tool| *tool == it.name);
        let mut blocked = Vec::new();
        let counted: Vec<_> = newest.tool_calls.iter().filter(counts).collect();
        for call in &counted {
            if self.is_over(thread + 1, run + 1) {
                blocked.push(*call);
            } else {
                (thread, run) = (thread + 1, run + 1);
            }
        }
        if counted.is_empty() {
            return Ok(None);
        }
        let n_blocked = blocked.len() as u64;
        let attempted_run = run + n_blocked;
        let ends = self.exit == ToolLimitExit::End && !blocked.is_empty();
        threads.insert(key.to_owned(), if ends { thread_before } else { thread });
        runs.insert(key.to_owned(), attempted_run);
        let update = Update::new().set(THREAD_COUNT, threads).set(RUN_COUNT, runs);
        if blocked.is_empty() {
            return Ok(Some(update));
        }
        let is_blocked = |call: &ToolCall| blocked.iter().any(|it| it.id == call.id);
        let blocked_text = self.blocked_text();
        let errors = blocked.iter().map(|it| ToolMessage::error(it, blocked_text.clone()));
        let mut messages: Vec<Message> = errors.map(Message::from).collect();
        match self.exit {
            ToolLimitExit::Continue => Ok(Some(update.messages(messages))),
            ToolLimitExit::Fail => Err(AgentError::named(
                "ToolCallLimitExceededError",
                self.reached_text(thread + n_blocked, attempted_run),
            )
            .into()),
            ToolLimitExit::End => {
                let others = newest.tool_calls.iter().filter(|it| !is_blocked(it));
                messages.extend(others.map(|it| ToolMessage::error(it, STOPPED).into()));
                let text = self.reached_text(thread + n_blocked, attempted_run);
                messages.push(Message::ai(text));
                Ok(Some(update.jump(JumpTo::End).messages(messages)))
            }
        }
    }
}
