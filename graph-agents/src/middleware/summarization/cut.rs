//! Determines where to cut a conversation: messages before the cut are summarised, messages from the cut on are kept.

use crate::message::Message;

/// Returns the index of the first message to keep, so that `keep` messages remain. `safe` may move the cut.
pub(super) fn by_messages(messages: &[Message], keep: usize) -> usize {
    match messages.len().checked_sub(keep) {
        None | Some(0) => 0,
        Some(cut) => safe(messages, cut),
    }
}

/// Returns the index of the first message to keep: the earliest one for which `fits` accepts the messages from there
/// on. Keeps at least one message, unless `safe` moves the cut.
pub(super) fn by_tokens(messages: &[Message], fits: impl Fn(&[Message]) -> bool) -> usize {
    if messages.is_empty() || fits(messages) {
        return 0;
    }
    let (mut low, mut high) = (0, messages.len());
    while low < high {
        let middle = low.midpoint(high);
        if fits(&messages[middle..]) { high = middle } else { low = middle + 1 }
    }
    match messages.len() {
        1 => 0,
        len => safe(messages, low.min(len - 1)),
    }
}

/// Moves a cut that separates tool results from their calls back to the message that contains the calls. If no message
/// contains them, moves the cut past the results that directly follow it.
fn safe(messages: &[Message], cut: usize) -> usize {
    let kept = &messages[cut..];
    // Other messages may occur between the results of one message's calls.
    let before_ai = kept.iter().take_while(|it| it.as_ai().is_none());
    let results: Vec<_> = before_ai.filter_map(Message::as_tool).collect();
    if results.is_empty() {
        return cut;
    }
    let calls_one = |message: &Message| {
        let calls = message.as_ai().map_or(&[][..], |it| &it.tool_calls);
        calls.iter().any(|call| results.iter().any(|it| it.tool_call_id == call.id()))
    };
    let n_leading = kept.iter().take_while(|it| it.as_tool().is_some()).count();
    messages[..cut].iter().rposition(calls_one).unwrap_or(cut + n_leading)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{AiMessage, ToolCall, ToolMessage};

    #[test]
    fn cut_moves_back_to_the_call_or_past_orphaned_results() {
        let call = ToolCall::new("t", json!({}), "c");
        let result = || Message::from(ToolMessage::success(&call, "r"));
        let ai = Message::from(AiMessage::new("").tool_call(call.clone()));
        assert_eq!(by_messages(&[Message::human("q"), ai, result(), Message::human("n")], 2), 1);
        let orphaned = [Message::human("q"), result(), result(), Message::human("n")];
        assert_eq!(by_messages(&orphaned, 3), 3);
        assert_eq!(by_messages(&orphaned, 4), 0);
    }
}
