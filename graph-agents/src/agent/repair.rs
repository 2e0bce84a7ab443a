//! Answers to malformed tool calls.

use crate::{
    AgentState,
    message::{AiMessage, InvalidToolCall, Message, ToolCall, ToolMessage, add_missing_results},
    state::MALFORMED_CALLS,
};

/// Adds an error result for each malformed tool call that has an id and no result. Returns `None` if there is no such
/// call.
pub(super) fn repair(messages: &[Message]) -> Option<Vec<Message>> {
    let has_invalid = |it: &AiMessage| !it.invalid_tool_calls.is_empty();
    if !messages.iter().filter_map(Message::as_ai).any(has_invalid) {
        return None;
    }
    let repaired = add_missing_results(messages, |it| {
        it.invalid_tool_calls.iter().filter(|it| it.id.is_some()).map(result).collect()
    });
    (repaired.len() > messages.len()).then_some(repaired)
}

fn result(call: &InvalidToolCall) -> ToolMessage {
    let name = call.name.clone().unwrap_or_else(|| "unknown".to_owned());
    let id = call.id.clone().unwrap_or_default();
    let mut text = format!(
        "Tool call {name} with id {id} could not be executed - arguments were malformed or truncated."
    );
    if let Some(error) = &call.error {
        text.push_str(&format!(" Reason: {error}. Write the arguments as one JSON object."));
    }
    let call = ToolCall { name, args: serde_json::Map::new(), id: Some(id), opaque: None };
    ToolMessage::error(&call, text)
}

/// Returns whether all tool calls of a message are malformed.
pub(super) fn is_malformed(message: &AiMessage) -> bool {
    message.tool_calls.is_empty() && !message.invalid_tool_calls.is_empty()
}

/// Returns the number of consecutive messages with only malformed calls, as counted by the model node. The messages do
/// not show this number, because middleware may have replaced or removed some of them.
pub(super) fn malformed_in_a_row(state: &AgentState) -> usize {
    state.get_as(MALFORMED_CALLS).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn malformed(id: &str) -> Message {
        let call = InvalidToolCall {
            name: Some("weather".to_owned()),
            id: Some(id.to_owned()),
            ..InvalidToolCall::default()
        };
        AiMessage { invalid_tool_calls: vec![call], ..AiMessage::default() }.into()
    }

    #[test]
    fn calls_with_the_same_id_in_several_messages_are_all_answered() {
        let first = repair(&[malformed("0")]).unwrap();
        assert_eq!(first.len(), 2);
        assert_eq!(repair(&first), None);
        let second = [first, vec![malformed("0")]].concat();
        assert_eq!(repair(&second).unwrap().len(), 4);
    }
}
