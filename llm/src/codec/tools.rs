//! Tools, in the words that several protocols share.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::schema;
use crate::Tool;

/// A tool, as OpenAI's chat completions have it, and Ollama's chat.
pub(super) fn in_a_chat(tool: &Tool) -> Value {
    let Tool { name, description, parameters } = tool;
    let parameters = schema::plain(parameters);
    let function = json!({ "name": name, "description": description, "parameters": parameters });
    json!({ "type": "function", "function": function })
}

/// What a tool gave, where a protocol has no other way to say that it failed.
pub(super) fn result(content: &str, failed: bool) -> Cow<'_, str> {
    if failed { format!("The tool failed: {content}").into() } else { content.into() }
}
