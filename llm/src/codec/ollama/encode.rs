//! Encodes requests.

use serde_json::{Map, Value, json};

use super::super::{call_error::CallError, common, family, media, provider_tool, schema};
use crate::{Effort, ErrorKind, Message, Part, Request, Role, ToolCall, ToolChoice};

/// Minimum context window to request, in tokens. It is the server's default.
const MIN_WINDOW: u64 = 4096;

/// Number of tokens that the context window reserves for an image.
const IMAGE_TOKENS: u64 = 2048;

pub(crate) fn body(
    model: &str,
    request: &Request,
    stream: bool,
) -> Result<Map<String, Value>, CallError> {
    media::check(request, media::ollama_rejects)?;
    let mut body = Map::new();
    let mut put = |key: &str, value: Value| drop(body.insert(key.to_owned(), value));
    let messages = messages(request);
    let tools = tools(request)?;
    let window = window(request, &messages, &tools);
    put("model", model.into());
    put("messages", messages.into());
    put("stream", stream.into());
    put("options", options(request, window).into());
    // With these two options, newer servers reject a request that does not fit, instead of silently dropping the oldest
    // messages.
    put("truncate", false.into());
    put("shift", false.into());
    if !tools.is_empty() {
        put("tools", tools.into());
    }
    if let Some(schema) = &request.schema {
        put("format", schema::plain(&schema.schema));
    }
    if let Some(alternatives) = request.logprobs {
        put("logprobs", true.into());
        put("top_logprobs", alternatives.into());
    }
    if let Some(effort) = request.effort {
        put("think", think(model, effort));
    }
    provider_tool::put(request, &mut body, provider_tool::ollama)?;
    Ok(body)
}

fn messages(request: &Request) -> Vec<Value> {
    let mut messages = Vec::new();
    if let Some(system) = &request.system {
        messages.push(json!({ "role": "system", "content": system }));
    }
    for message in &request.messages {
        match message.role {
            Role::User => messages.extend(common::chat_user_messages(
                message,
                |_, name| ("tool_name", name),
                user,
            )),
            Role::Assistant => messages.push(assistant(message)),
            Role::System => {
                messages.push(json!({ "role": "system", "content": message.text() }));
            }
        }
    }
    messages
}

fn user(message: &Message) -> Value {
    let mut encoded = json!({ "role": "user", "content": message.text() });
    let images: Vec<&str> = media::all(message).filter_map(media::ollama).collect();
    if !images.is_empty() {
        encoded["images"] = images.into();
    }
    encoded
}

fn assistant(message: &Message) -> Value {
    let mut calls = Vec::new();
    let mut thought = String::new();
    for part in &message.parts {
        match part {
            Part::ToolCall(call) => calls.push(tool_call(call)),
            Part::InvalidToolCall(call) => calls.push(tool_call(&common::sendable_call(call))),
            Part::Reasoning { text, .. } => thought.push_str(text),
            Part::Text { .. } | Part::Media(_) | Part::ToolResult { .. } => {}
        }
    }
    let mut message = json!({ "role": "assistant", "content": message.text() });
    if !thought.is_empty() {
        message["thinking"] = thought.into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message
}

fn tool_call(call: &ToolCall) -> Value {
    let function = json!({ "name": call.name, "arguments": call.arguments });
    json!({ "type": "function", "function": function })
}

fn tools(request: &Request) -> Result<Vec<Value>, CallError> {
    match &request.tool_choice {
        ToolChoice::Auto => Ok(request.tools.iter().map(common::chat_tool).collect()),
        // The API cannot forbid tool calls, so the tools are omitted.
        ToolChoice::None => Ok(Vec::new()),
        ToolChoice::Required | ToolChoice::Tool(_) => {
            let message = "Ollama cannot force a tool call; use `ToolChoice::Auto`";
            Err(CallError::new(ErrorKind::BadRequest, message))
        }
    }
}

fn options(request: &Request, window: u64) -> Map<String, Value> {
    let mut options = common::sampling_options(request, "stop");
    let mut put = |key: &str, value: Value| drop(options.insert(key.to_owned(), value));
    put("num_ctx", window.into());
    put("num_predict", request.max_tokens.into());
    options
}

/// Returns the size of the context window to request, in tokens, for request and response together.
///
/// The server silently drops messages that do not fit the window, so the estimate is generous: no tokenizer needs more
/// than one token per two bytes of ordinary text. The server reloads the model if the size of the window changes, so
/// the size is increased only by doubling.
fn window(request: &Request, messages: &[Value], tools: &[Value]) -> u64 {
    let bytes: usize = messages.iter().chain(tools).map(|it| it.to_string().len()).sum();
    let images = request.messages.iter().flat_map(media::all).filter_map(media::ollama);
    let (n_images, image_bytes) = images.fold((0, 0), |(n, bytes), it| (n + 1, bytes + it.len()));
    let tokens = (bytes - image_bytes) as u64 / 2 + n_images * IMAGE_TOKENS;
    let tokens = tokens.saturating_add(u64::from(request.max_tokens));
    tokens.max(MIN_WINDOW).next_power_of_two()
}

/// Encodes the effort. For most models, thinking can only be turned on or off. gpt-oss has levels, and its thinking
/// cannot be turned off.
fn think(model: &str, effort: Effort) -> Value {
    match effort {
        _ if !model.contains("gpt-oss") => (effort != Effort::None).into(),
        Effort::None => "low".into(),
        _ => family::effort_level(effort).into(),
    }
}
