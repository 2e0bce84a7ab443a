//! Adds results for tool calls that have none.

use super::types::{AiMessage, Message, ToolMessage};

/// Adds results to the calls that have none, directly after the AI message. `results` returns a result for each call of
/// an AI message that needs one.
///
/// Providers reject a conversation in which a tool call has no result.
pub(crate) fn add_missing_results(
    messages: &[Message],
    results: impl Fn(&AiMessage) -> Vec<ToolMessage>,
) -> Vec<Message> {
    let mut complete = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        complete.push(message.clone());
        let Some(calling) = message.as_ai() else { continue };
        // Some servers send no ids. The generated ids are unique only within a message, so the results of a message are
        // those before the model's next message.
        let following = messages[index + 1..].iter().take_while(|it| it.as_ai().is_none());
        let present: Vec<_> =
            following.filter_map(Message::as_tool).map(|it| &it.tool_call_id).collect();
        let results = results(calling).into_iter();
        let missing = results.filter(|it| !present.contains(&&it.tool_call_id));
        complete.extend(missing.map(Message::Tool));
    }
    complete
}
