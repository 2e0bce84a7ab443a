//! Encodes the parts of requests that several protocols have in common: sampling options, tools and tool results.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::schema;
use crate::{Message, Part, Request, Tool};

/// Encodes temperature, seed and stop sequences. Only the key of the stop sequences depends on the protocol.
pub(super) fn sampling_options(request: &Request, stop: &str) -> Map<String, Value> {
    let mut options = Map::new();
    let mut put = |key: &str, value: Value| drop(options.insert(key.to_owned(), value));
    if let Some(temperature) = request.temperature {
        put("temperature", temperature.into());
    }
    if let Some(seed) = request.seed {
        put("seed", seed.into());
    }
    if !request.stop.is_empty() {
        put(stop, request.stop.clone().into());
    }
    options
}

/// Encodes a tool for OpenAI's chat completions and Ollama's chat API.
pub(super) fn chat_tool(tool: &Tool) -> Value {
    let Tool { name, description, parameters } = tool;
    let parameters = schema::plain(parameters);
    let function = json!({ "name": name, "description": description, "parameters": parameters });
    json!({ "type": "function", "function": function })
}

/// Encodes a user message as chat messages. Each tool result becomes a separate message. The results come first,
/// because they must directly follow the calls. The text becomes the last message. It is omitted if it is empty and
/// there are results.
///
/// `result` receives the id and the name of a tool call. It returns the key and the value that identify the call in the
/// message with its result.
pub(super) fn chat_user_messages<'a>(
    message: &'a Message,
    result: impl Fn(&'a str, &'a str) -> (&'static str, &'a str),
    encode_text: impl FnOnce(&str) -> Value,
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
        messages.push(json!({ "role": "user", "content": encode_text(&text) }));
    }
    messages
}

/// Returns the result of a tool as text, for protocols that cannot mark a result as failed.
pub(super) fn result_text(content: &str, failed: bool) -> Cow<'_, str> {
    if failed { format!("The tool failed: {content}").into() } else { content.into() }
}
