//! Trimming a conversation to a size, and estimating its size.

use std::{fmt, sync::Arc};

use super::{
    content::Content,
    types::{AiMessage, Message},
};
use crate::notation;

/// Counts the tokens of messages.
///
/// ```
/// use graph_agents::{Message, message::TokenCounter};
///
/// let words = TokenCounter::new(|messages| {
///     messages.iter().map(|it| it.text().split_whitespace().count()).sum()
/// });
/// assert_eq!(words.count(&[Message::human("How old is the Rhine?")]), 5);
/// ```
#[derive(Clone)]
pub struct TokenCounter(Arc<dyn Fn(&[Message]) -> usize + Send + Sync>);

impl TokenCounter {
    /// Creates a counter from a function.
    pub fn new(count: impl Fn(&[Message]) -> usize + Send + Sync + 'static) -> Self {
        Self(Arc::new(count))
    }

    /// Returns the number of tokens.
    pub fn count(&self, messages: &[Message]) -> usize {
        (self.0)(messages)
    }
}

impl Default for TokenCounter {
    fn default() -> Self {
        Self::new(count_tokens_approximately)
    }
}

impl fmt::Debug for TokenCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenCounter")
    }
}

/// Estimates the number of tokens: a token per four characters, and three tokens per message.
pub fn count_tokens_approximately(messages: &[Message]) -> usize {
    messages.iter().map(|it| characters(it).div_ceil(4) + 3).sum()
}

fn characters(message: &Message) -> usize {
    let length = |text: &str| text.chars().count();
    let content = match message.content() {
        Some(Content::Text(text)) => length(text),
        Some(Content::Blocks(blocks)) => {
            length(&notation::python(&serde_json::Value::from(blocks.clone())))
        }
        None => 0,
    };
    let (role, extra) = match message {
        Message::Human(_) => ("user", 0),
        Message::System(_) => ("system", 0),
        Message::Remove { .. } => ("remove", 0),
        Message::Tool(it) => ("tool", length(&it.tool_call_id)),
        Message::Ai(it) if it.tool_calls.is_empty() => ("assistant", invalid_calls(it)),
        Message::Ai(it) => {
            let calls = it.tool_calls.iter().map(|call| {
                let id = call.id.as_deref().map_or("None".to_owned(), notation::python_str);
                format!(
                    "{{'name': {}, 'args': {}, 'id': {id}, 'type': 'tool_call'}}",
                    notation::python_str(&call.name),
                    notation::python_object(&call.args),
                )
            });
            let calls = length(&format!("[{}]", calls.collect::<Vec<_>>().join(", ")));
            ("assistant", calls + invalid_calls(it))
        }
    };
    content + extra + length(role) + message.name().map_or(0, length)
}

/// Returns the number of characters in the names and arguments of malformed tool calls.
fn invalid_calls(message: &AiMessage) -> usize {
    let texts = message.invalid_tool_calls.iter().flat_map(|it| [&it.name, &it.args]);
    texts.flatten().map(|it| it.chars().count()).sum()
}

/// Options of [`trim_messages`].
///
/// ```
/// use graph_agents::{Message, TokenCounter, TrimOptions, trim_messages};
///
/// let messages = [Message::human("a"), Message::ai("b"), Message::human("c"), Message::ai("d")];
/// let options = TrimOptions {
///     max_tokens: Some(3),
///     // Counts one token per message.
///     counter: TokenCounter::new(|messages| messages.len()),
///     start_on_human: true,
///     ..TrimOptions::default()
/// };
/// assert_eq!(trim_messages(&messages, &options), [Message::human("c"), Message::ai("d")]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct TrimOptions {
    /// Maximum number of tokens.
    pub max_tokens: Option<usize>,
    /// Maximum number of messages.
    pub max_messages: Option<usize>,
    /// Counts tokens.
    pub counter: TokenCounter,
    /// Whether to drop leading messages until the first human message.
    pub start_on_human: bool,
}

/// Returns the newest messages that fit the limits. Keeps a system message at the start of the conversation.
///
/// Never separates a tool call from its results. Keeps the system message even if it alone exceeds the limits.
///
/// ```
/// use graph_agents::{Message, TrimOptions, trim_messages};
///
/// let messages = [Message::system("Be brief."), Message::human("a"), Message::ai("b"), Message::human("c")];
/// let options = TrimOptions { max_messages: Some(2), ..TrimOptions::default() };
/// let kept = trim_messages(&messages, &options);
/// assert_eq!(kept, [Message::system("Be brief."), Message::human("c")]);
/// ```
pub fn trim_messages(messages: &[Message], options: &TrimOptions) -> Vec<Message> {
    let (system, rest) = match messages {
        [system @ Message::System(_), rest @ ..] => (Some(system), rest),
        rest => (None, rest),
    };
    let fits = |part: &[Message]| {
        let n_messages = usize::from(system.is_some()) + part.len();
        options.max_messages.is_none_or(|max| n_messages <= max)
            && options.max_tokens.is_none_or(|max| {
                let all: Vec<_> = system.into_iter().chain(part).cloned().collect();
                options.counter.count(&all) <= max
            })
    };
    let may_start = |start: usize| {
        let first = rest.get(start);
        let starts = match first {
            Some(first) if options.start_on_human => matches!(first, Message::Human(_)),
            first => first.is_none_or(|it| it.as_tool().is_none()),
        };
        starts && !separates(&rest[..start], &rest[start..])
    };
    let start = (0..=rest.len()).find(|start| may_start(*start) && fits(&rest[*start..]));
    let kept = start.map_or(&[][..], |it| &rest[it..]);
    system.into_iter().chain(kept).cloned().collect()
}

/// Returns whether a tool call is in the first part and its result in the second one. Other messages may occur between
/// the results of one message's calls.
fn separates(before: &[Message], after: &[Message]) -> bool {
    let mut results =
        after.iter().take_while(|it| it.as_ai().is_none()).filter_map(Message::as_tool);
    let calls = before.iter().rev().find_map(Message::as_ai).map_or(&[][..], |it| &it.tool_calls);
    results.any(|result| calls.iter().any(|call| call.id() == result.tool_call_id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::InvalidToolCall;

    #[test]
    fn arguments_of_malformed_calls_are_counted_as_tokens() {
        let args = Some("x".repeat(400));
        let call = InvalidToolCall { args, ..InvalidToolCall::default() };
        let message = AiMessage { invalid_tool_calls: vec![call], ..AiMessage::default() };
        assert!(count_tokens_approximately(&[message.into()]) >= 100);
    }
}
