//! Repair of conversations that contain malformed tool calls.

use crate::message::{AiMessage, InvalidToolCall, Message, ToolCall, ToolMessage};

/// Adds an error result for each malformed tool call that has an id and no result. Returns `None` if there is no such
/// call.
///
/// Providers reject a conversation in which a tool call has no result.
pub(super) fn repair(messages: &[Message]) -> Option<Vec<Message>> {
    let is_answered =
        |id: &str| messages.iter().filter_map(Message::as_tool).any(|it| it.tool_call_id == id);
    let has_invalid = |it: &AiMessage| !it.invalid_tool_calls.is_empty();
    if !messages.iter().filter_map(Message::as_ai).any(has_invalid) {
        return None;
    }
    let mut repaired = Vec::with_capacity(messages.len());
    for message in messages {
        repaired.push(message.clone());
        let invalid = message.as_ai().map_or(&[][..], |it| &it.invalid_tool_calls);
        let unanswered =
            invalid.iter().filter(|it| it.id.as_deref().is_some_and(|id| !is_answered(id)));
        repaired.extend(unanswered.map(|it| Message::Tool(result(it))));
    }
    (repaired.len() > messages.len()).then_some(repaired)
}

fn result(call: &InvalidToolCall) -> ToolMessage {
    let name = call.name.clone().unwrap_or_else(|| "unknown".to_owned());
    let id = call.id.clone().unwrap_or_default();
    let text = format!(
        "Tool call {name} with id {id} could not be executed - arguments were malformed or truncated."
    );
    let call = ToolCall { name, args: serde_json::Map::new(), id: Some(id), opaque: None };
    ToolMessage::error(&call, text)
}
