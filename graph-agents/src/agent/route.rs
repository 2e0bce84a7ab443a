//! Where an agent's loop continues.

use graph_core::{Goto, NodeError};
use serde_json::Map;

use crate::{
    AgentState,
    command::JumpTo,
    message::{Status, last_ai},
    state::{JUMP_TO, STRUCTURED_RESPONSE},
    tool_node::SentCall,
};

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

/// Chooses the next nodes after the model: one task of the node `tools` per unanswered tool call, the exit, or another
/// round of the loop.
pub(super) fn after_model(
    state: &AgentState,
    to: &Destinations,
    response_tools: &[String],
    needs_state: bool,
) -> Result<Vec<Goto>, NodeError> {
    if let Some(jump) = jump(state) {
        return Ok(vec![to.resolve(jump)]);
    }
    let Some((newest, answers)) = last_ai(state.messages()) else { return Ok(vec![to.exit()]) };
    if newest.tool_calls.is_empty() {
        return Ok(vec![to.exit()]);
    }
    let is_answered = |id: &str| answers.iter().any(|it| it.tool_call_id == id);
    let pending = newest.tool_calls.iter();
    let pending = pending.filter(|it| !is_answered(it.id()) && !response_tools.contains(&it.name));
    let fields = if needs_state { state.to_fields() } else { Map::new() };
    let sends = pending.map(|call| {
        let sent = SentCall { tool_call: call.clone(), state: fields.clone() };
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

/// Chooses the next node after the tools: the exit if all tools that ran return directly or if a structured response
/// was given, otherwise another round of the loop.
pub(super) fn after_tools(
    state: &AgentState,
    to: &Destinations,
    return_direct: &[(String, bool)],
    response_tools: &[String],
) -> Vec<Goto> {
    let Some((newest, answers)) = last_ai(state.messages()) else { return vec![to.loop_entry()] };
    let executed_name = |id: &str, name: &str| -> String {
        // A reviewer may have replaced the call with one of another tool; the name on the result is that of the tool
        // that ran.
        let answer = answers.iter().find(|it| it.tool_call_id == id);
        answer.and_then(|it| it.name.clone()).unwrap_or_else(|| name.to_owned())
    };
    let names = newest.tool_calls.iter().map(|it| executed_name(it.id(), &it.name));
    let mut registered =
        names.filter_map(|name| return_direct.iter().find(|it| it.0 == name)).peekable();
    if registered.peek().is_some() && registered.all(|it| it.1) {
        return vec![to.exit()];
    }
    let is_response = |name: Option<&String>| name.is_some_and(|it| response_tools.contains(it));
    let responded =
        answers.iter().any(|it| is_response(it.name.as_ref()) && it.status != Status::Error);
    match responded {
        true => vec![to.exit()],
        false => vec![to.loop_entry()],
    }
}
