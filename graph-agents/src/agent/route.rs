//! Chooses the next nodes of an agent's loop.

use std::borrow::Cow;

use graph_core::{Goto, NodeError};
use serde_json::Map;

use super::repair::{is_malformed, malformed_in_a_row};
use crate::{
    AgentState,
    command::JumpTo,
    message::{Message, ToolCall, last_ai},
    state::{JUMP_TO, STRUCTURED_RESPONSE},
    tool_node::SentCall,
};

/// Name of the node that executes handoffs that the model requested together with other calls.
pub(super) const HANDOFF: &str = "handoff";

/// The nodes at which a run can continue after the model or after the tools.
#[derive(Clone, Debug)]
pub(super) struct Destinations {
    /// Node at which each round starts.
    pub(super) loop_entry: String,
    /// Node that follows the loop.
    pub(super) exit: String,
}

impl Destinations {
    pub(super) fn resolve(&self, jump: JumpTo) -> Goto {
        match jump {
            JumpTo::End => self.exit(),
            JumpTo::Model => self.loop_entry(),
            JumpTo::Tools => Goto::node("tools"),
        }
    }

    fn exit(&self) -> Goto {
        Goto::node(self.exit.clone())
    }

    fn loop_entry(&self) -> Goto {
        Goto::node(self.loop_entry.clone())
    }
}

fn jump(state: &AgentState) -> Option<JumpTo> {
    state.get(JUMP_TO).and_then(JumpTo::from_value)
}

fn has_response(state: &AgentState) -> bool {
    state.get(STRUCTURED_RESPONSE).is_some_and(|it| !it.is_null())
}

/// Returns the unanswered handoff calls of the newest AI message. `handoffs` contains the names of the handoff tools.
pub(super) fn pending_handoffs<'a>(
    messages: &'a [Message],
    handoffs: &[String],
) -> Vec<&'a ToolCall> {
    let Some((newest, answers)) = last_ai(messages) else { return Vec::new() };
    let is_answered = |id: &str| answers.iter().any(|it| it.tool_call_id == id);
    let calls = newest.tool_calls.iter();
    calls.filter(|it| handoffs.contains(&it.name) && !is_answered(it.id())).collect()
}

/// The tools with a special role in an agent's loop.
#[derive(Clone, Debug)]
pub(super) struct SpecialTools {
    /// Names of the structured-output tools.
    pub(super) response: Vec<String>,
    /// Names of the tools that hand the conversation to another agent.
    pub(super) handoffs: Vec<String>,
    /// Names of the tools that read the state.
    pub(super) state_readers: Vec<String>,
    /// Name of each tool, and whether the loop ends after it.
    pub(super) return_direct: Vec<(String, bool)>,
}

/// Settings of the branch after the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModelRoute {
    /// Whether middleware wraps tool calls. If so, all calls receive the state, and not only calls of tools that read
    /// it.
    pub(super) wraps_tools: bool,
    /// Maximum number of consecutive messages with only malformed calls after which the model is called again.
    pub(super) malformed_call_retries: usize,
}

/// Chooses the next nodes after the model: one task of the node `tools` per unanswered tool call, the exit, or another
/// round of the loop. The model node answers malformed calls at the start of that round.
pub(super) fn after_model(
    state: &AgentState,
    to: &Destinations,
    tools: &SpecialTools,
    settings: ModelRoute,
) -> Result<Vec<Goto>, NodeError> {
    if let Some(jump) = jump(state) {
        return Ok(vec![to.resolve(jump)]);
    }
    let Some((newest, answers)) = last_ai(state.messages()) else { return Ok(vec![to.exit()]) };
    if newest.tool_calls.is_empty() {
        // The count is not stored, so it is missing if another process resumes the run at this point.
        let in_a_row = malformed_in_a_row(state).max(1);
        let retries = is_malformed(newest) && in_a_row <= settings.malformed_call_retries;
        return Ok(vec![if retries { to.loop_entry() } else { to.exit() }]);
    }
    let is_answered = |id: &str| answers.iter().any(|it| it.tool_call_id == id);
    let pending = newest.tool_calls.iter();
    let pending = pending.filter(|it| !is_answered(it.id()) && !tools.response.contains(&it.name));
    let mut pending: Vec<_> = pending.collect();
    if pending.len() > 1 {
        // Handoffs end the agent, so they run after the other calls.
        pending.retain(|it| !tools.handoffs.contains(&it.name));
        if pending.is_empty() {
            return Ok(vec![Goto::node(HANDOFF)]);
        }
    }
    let needs_state =
        |it: &ToolCall| settings.wraps_tools || tools.state_readers.contains(&it.name);
    let fields = match pending.iter().any(|it| needs_state(it)) {
        true => state.to_fields(),
        false => Map::new(),
    };
    let none = Map::new();
    let sends = pending.into_iter().map(|call| {
        let state = if needs_state(call) { &fields } else { &none };
        let sent = SentCall { tool_call: Cow::Borrowed(call), state: Cow::Borrowed(state) };
        Ok(Goto::send("tools", serde_json::to_value(sent).map_err(NodeError::terminal)?))
    });
    let sends: Vec<Goto> = sends.collect::<Result<_, NodeError>>()?;
    match (sends.is_empty(), has_response(state)) {
        (false, _) => Ok(sends),
        (true, true) => Ok(vec![to.exit()]),
        (true, false) => Ok(vec![to.loop_entry()]),
    }
}

/// Chooses the next node after the model, for an agent that has no tools and receives its structured response through a
/// tool call.
pub(super) fn after_response(state: &AgentState, to: &Destinations) -> Vec<Goto> {
    match jump(state) {
        Some(jump) => vec![to.resolve(jump)],
        None if has_response(state) => vec![to.exit()],
        None => vec![to.loop_entry()],
    }
}

/// Chooses the next node after the tools: a handoff if the model requested one together with the executed calls, the
/// exit if all tools that ran return directly or if there is a structured response, otherwise another round of the
/// loop.
pub(super) fn after_tools(
    state: &AgentState,
    to: &Destinations,
    tools: &SpecialTools,
) -> Vec<Goto> {
    if !pending_handoffs(state.messages(), &tools.handoffs).is_empty() {
        return vec![Goto::node(HANDOFF)];
    }
    let Some((newest, answers)) = last_ai(state.messages()) else { return vec![to.loop_entry()] };
    let executed_name = |id: &str, name: &str| -> String {
        // A reviewer may have replaced the call with a call to another tool. The result has the name of the tool that
        // ran.
        let answer = answers.iter().find(|it| it.tool_call_id == id);
        answer.and_then(|it| it.name.clone()).unwrap_or_else(|| name.to_owned())
    };
    let names = newest.tool_calls.iter().map(|it| executed_name(it.id(), &it.name));
    let mut registered =
        names.filter_map(|name| tools.return_direct.iter().find(|it| it.0 == name)).peekable();
    if registered.peek().is_some() && registered.all(|it| it.1) {
        return vec![to.exit()];
    }
    // With structured-output tools, each model call sets or clears the response. Otherwise, a response in the state has
    // another origin, such as a tool's command.
    match !tools.response.is_empty() && has_response(state) {
        true => vec![to.exit()],
        false => vec![to.loop_entry()],
    }
}
