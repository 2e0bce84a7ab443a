//! Tools, in the words that several protocols share.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::schema;
use crate::{Message, Part, Tool};

/// A tool, as OpenAI's chat completions have it, and Ollama's chat.
pub(super) fn chat_tool(tool: &Tool) -> Value {
    let Tool { name, description, parameters } = tool;
    let parameters = schema::plain(parameters);
    let function = json!({ "name": name, "description": description, "parameters": parameters });
    json!({ "type": "function", "function": function })
}

/// The messages that one of the user's becomes in a chat: the results of tools, each a message of its own right after
/// the calls, and then the words, if there are any or nothing else is.
///
/// `result` says in which key a result names its call, and by what.
pub(super) fn chat_user_messages<'a>(
    message: &'a Message,
    result: impl Fn(&'a str, &'a str) -> (&'static str, &'a str),
    words: impl FnOnce(&str) -> Value,
) -> Vec<Value> {
    let mut messages = Vec::new();
    for part in &message.parts {
        if let Part::ToolResult { id, name, content, failed } = part {
            let (key, call) = result(id, name);
            let content = self::result_text(content, *failed);
            messages.push(json!({ "role": "tool", key: call, "content": content }));
        }
    }
    let text = message.text();
    if !text.is_empty() || messages.is_empty() {
        messages.push(json!({ "role": "user", "content": words(&text) }));
    }
    messages
}

/// What a tool gave, where a protocol has no other way to say that it failed.
pub(super) fn result_text(content: &str, failed: bool) -> Cow<'_, str> {
    if failed { format!("The tool failed: {content}").into() } else { content.into() }
}
