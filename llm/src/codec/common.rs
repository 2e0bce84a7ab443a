//! Encodes the parts of requests that several protocols have in common: sampling options, tools and tool results.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{
    media,
    schema::{self, Dialect},
};
use crate::{InvalidToolCall, Message, Part, Request, Tool, ToolCall};

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
    json!({ "type": "function", "function": function(tool, Dialect::OpenAi, "parameters") })
}

/// Encodes a function, with its schema under `schema_key`. Uses strict mode if the tool asks for it and the dialect of
/// strict mode can express its schema.
pub(super) fn function(tool: &Tool, dialect: Dialect, schema_key: &str) -> Value {
    let Tool { name, description, parameters, strict } = tool;
    let strict_schema = strict.then(|| schema::adapt(parameters, dialect)).flatten();
    let is_strict = strict_schema.is_some();
    let schema = strict_schema.unwrap_or_else(|| schema::plain(parameters));
    let mut function = json!({ "name": name, "description": description, schema_key: schema });
    if is_strict {
        function["strict"] = true.into();
    }
    function
}

/// Converts an invalid tool call of an earlier response to a call that all providers accept. They require an object, so
/// the text of the arguments becomes a member of an object.
pub(super) fn sendable_call(call: &InvalidToolCall) -> ToolCall {
    let InvalidToolCall { id, name, arguments, opaque, .. } = call.clone();
    ToolCall { id, name, arguments: json!({ "invalid_arguments": arguments }), opaque }
}

/// Encodes a user message as chat messages. Each tool result becomes a separate message. The results come first,
/// because they must directly follow the calls. `encode_rest` creates the last message from text and media, unless
/// there are only results.
///
/// `result` receives the id and the name of a tool call. It returns the key and the value that identify the call in the
/// message with its result.
pub(super) fn chat_user_messages<'a>(
    message: &'a Message,
    result: impl Fn(&'a str, &'a str) -> (&'static str, &'a str),
    encode_rest: impl FnOnce(&Message) -> Value,
) -> Vec<Value> {
    let mut messages = Vec::new();
    for part in &message.parts {
        if let Part::ToolResult { id, name, content, failed } = part {
            let (key, call) = result(id, name);
            let content = self::result_text(content, *failed);
            messages.push(json!({ "role": "tool", key: call, "content": content }));
        }
    }
    let has_rest = !message.text().is_empty() || media::all(message).next().is_some();
    if has_rest || messages.is_empty() {
        messages.push(encode_rest(message));
    }
    messages
}

/// Returns the result of a tool as text, for protocols that cannot mark a result as failed.
pub(super) fn result_text(content: &str, failed: bool) -> Cow<'_, str> {
    if failed { format!("The tool failed: {content}").into() } else { content.into() }
}

/// Returns the text of a system message for protocols that have no system messages within a conversation.
pub(super) fn system_element(message: &Message) -> String {
    format!("<system>\n{}\n</system>", message.text())
}
