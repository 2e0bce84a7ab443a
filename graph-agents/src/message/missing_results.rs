//! Adds results for tool calls that have none.

use super::types::{AiMessage, Message, ToolMessage};

/// Adds results directly after each AI message, except for calls that already have one. `results` returns the results
/// to add for an AI message.
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
        // Generated ids, for servers that send none, are unique only within a message. A message's results therefore
        // end where the model's next message begins.
        let following = messages[index + 1..].iter().take_while(|it| it.as_ai().is_none());
        let present: Vec<_> =
            following.filter_map(Message::as_tool).map(|it| &it.tool_call_id).collect();
        let results = results(calling).into_iter();
        let missing = results.filter(|it| !present.contains(&&it.tool_call_id));
        complete.extend(missing.map(Message::Tool));
    }
    complete
}
