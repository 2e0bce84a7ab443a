//! The node that executes handoffs that the model requested together with other calls.

use std::slice;

use graph_core::{
    Context, JsonStateSchema, NodeError,
    json::{JsonInput, JsonReturn},
};

use super::route::pending_handoffs;
use crate::{
    AgentState,
    command::{Command, CommandUpdate, Update},
    message::{Message, ToolCall, ToolMessage},
    tool_node::{ToolNode, ToolResults},
};

/// Executes the first unanswered handoff call of the newest AI message. All other calls of the message have already
/// been executed, so the next agent receives their results.
pub(super) async fn run_handoff(
    node: &ToolNode,
    handoffs: &[String],
    input: &JsonInput,
    context: &Context,
    schema: &JsonStateSchema,
) -> Result<JsonReturn, NodeError> {
    let state = AgentState::from_input(input)?;
    let mut pending = pending_handoffs(state.messages(), handoffs).into_iter();
    let Some(first) = pending.next() else { return Ok(JsonReturn::Nothing) };
    let mut results = node.run_tool_calls(slice::from_ref(first), &state, context).await?;
    if let ToolResults::Commands(commands) = &mut results {
        let losing: Vec<_> = pending.collect();
        commands.iter_mut().filter(|it| it.parent).for_each(|it| answer_losing(it, &losing));
    }
    results.stream(context).await;
    results.into_return(schema)
}

/// Adds an error result to `command` for each handoff in `losing`. These handoffs are not executed, because `command`
/// already transfers the conversation. Handoffs whose calls `command` removes from the conversation need no result.
/// Providers reject a conversation with unanswered calls.
fn answer_losing(command: &mut Command, losing: &[&ToolCall]) {
    let mut messages = command.written_messages();
    let calls: Vec<_> = messages.iter().filter_map(Message::as_ai).collect();
    let is_kept = |call: &ToolCall| calls.iter().any(|it| it.tool_calls.contains(call));
    let text = "Not transferred: an earlier call in the same message already transferred the conversation.";
    let answers = losing.iter().filter(|it| is_kept(it));
    let answers: Vec<Message> = answers.map(|it| ToolMessage::error(it, text).into()).collect();
    if answers.is_empty() {
        return;
    }
    messages.extend(answers);
    let update = match command.update.take() {
        Some(CommandUpdate::Fields(update)) => update,
        Some(CommandUpdate::Messages(_)) | None => Update::new(),
    };
    command.update = Some(CommandUpdate::Fields(update.messages(messages)));
}
