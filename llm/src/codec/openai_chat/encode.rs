//! Encodes requests.

use serde_json::{Map, Value, json};

use super::{
    super::{breakpoints, call_error::CallError, common, media, provider_tool},
    quirks::Quirks,
};
use crate::{ErrorKind, Message, Part, Request, Role, ToolCall, ToolChoice};

pub(crate) fn body(
    quirks: &Quirks,
    model: &str,
    request: &Request,
    stream: bool,
) -> Result<Map<String, Value>, CallError> {
    if !request.stop.is_empty() && !quirks.supports_stop(model) {
        let message = "OpenAI's reasoning models do not support stop sequences; remove them";
        return Err(CallError::new(ErrorKind::BadRequest, message));
    }
    media::check(request, media::chat_rejects)?;
    let mut body = common::sampling_options(request, "stop");
    let mut put = |key: &str, value: Value| drop(body.insert(key.to_owned(), value));
    put("model", model.into());
    put("messages", messages(quirks, request).into());
    put(quirks.max_tokens_field, request.max_tokens.into());
    if !request.tools.is_empty() {
        put("tools", request.tools.iter().map(common::chat_tool).collect());
        if let Some(choice) = tool_choice(&request.tool_choice) {
            put("tool_choice", choice);
        }
        if let Some(parallel) = request.parallel_tool_calls {
            put("parallel_tool_calls", parallel.into());
        }
    }
    if let Some(alternatives) = request.logprobs {
        put("logprobs", true.into());
        put("top_logprobs", alternatives.into());
    }
    if let (Some(key), true) = (&request.cache_key, quirks.supports_cache_key) {
        put("prompt_cache_key", key.as_str().into());
    }
    if stream {
        put("stream", true.into());
        if quirks.requests_stream_usage {
            put("stream_options", json!({ "include_usage": true }));
        }
    }
    if let Some(effort) = request.effort {
        quirks.put_effort(model, effort, &mut body);
    }
    quirks.put_schema(model, request, &mut body)?;
    provider_tool::put(request, &mut body, |tool| provider_tool::chat(quirks, tool))?;
    Ok(body)
}

fn messages(quirks: &Quirks, request: &Request) -> Vec<Value> {
    let mut messages = Vec::new();
    if let Some(system) = &request.system {
        let content = content(system, request.cache_system && quirks.supports_breakpoints);
        messages.push(json!({ "role": "system", "content": content }));
    }
    for (message, has_breakpoint) in breakpoints::messages(request) {
        let has_breakpoint = has_breakpoint && quirks.supports_breakpoints;
        match message.role {
            Role::User => messages.extend(common::chat_user_messages(
                message,
                |id, _| ("tool_call_id", id),
                |message| user(message, has_breakpoint),
            )),
            Role::Assistant => messages.push(assistant(quirks, message, has_breakpoint)),
            Role::System => {
                let content = content(&message.text(), has_breakpoint);
                messages.push(named(message, json!({ "role": "system", "content": content })));
            }
        }
    }
    messages
}

fn user(message: &Message, has_breakpoint: bool) -> Value {
    let mut content = content(&message.text(), has_breakpoint);
    if media::all(message).next().is_some() {
        content = message.parts.iter().filter_map(content_part).collect();
        if let (true, Some(last)) =
            (has_breakpoint, content.as_array_mut().and_then(|it| it.last_mut()))
        {
            last["cache_control"] = json!({ "type": "ephemeral" });
        }
    }
    named(message, json!({ "role": "user", "content": content }))
}

fn content_part(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text } => Some(json!({ "type": "text", "text": text })),
        Part::Media(it) => Some(media::chat(it)),
        Part::Reasoning { .. }
        | Part::ToolCall(_)
        | Part::InvalidToolCall(_)
        | Part::ToolResult { .. } => None,
    }
}

/// Adds the author's name, unless it contains characters that the API rejects.
fn named(message: &Message, mut encoded: Value) -> Value {
    let is_valid = |name: &&String| {
        let is_allowed = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
        (1..=64).contains(&name.len()) && name.chars().all(is_allowed)
    };
    if let Some(name) = message.name.as_ref().filter(is_valid) {
        encoded["name"] = name.as_str().into();
    }
    encoded
}

fn assistant(quirks: &Quirks, message: &Message, has_breakpoint: bool) -> Value {
    let mut calls = Vec::new();
    let mut details = Vec::new();
    let mut thought = String::new();
    for part in &message.parts {
        match part {
            Part::ToolCall(call) => calls.push(tool_call(call)),
            Part::InvalidToolCall(call) => calls.push(tool_call(&common::sendable_call(call))),
            Part::Reasoning { text, opaque } => {
                thought.push_str(text);
                let opaque = opaque.as_ref().and_then(|it| it["reasoning_details"].as_array());
                details.extend(opaque.into_iter().flatten().cloned());
            }
            Part::Text { .. } | Part::Media(_) | Part::ToolResult { .. } => {}
        }
    }
    let text = message.text();
    let content = content(&text, has_breakpoint && !text.is_empty());
    let mut message = named(message, json!({ "role": "assistant", "content": content }));
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    if !details.is_empty() && quirks.returns_reasoning_details {
        message["reasoning_details"] = details.into();
    }
    if let (Some(name), false) = (quirks.reasoning_field, thought.is_empty()) {
        message[name] = thought.into();
    }
    message
}

fn content(text: &str, breakpoint: bool) -> Value {
    if !breakpoint {
        return text.into();
    }
    json!([{ "type": "text", "text": text, "cache_control": { "type": "ephemeral" } }])
}

fn tool_call(call: &ToolCall) -> Value {
    let function = json!({ "name": call.name, "arguments": call.arguments.to_string() });
    json!({ "id": call.id, "type": "function", "function": function })
}

fn tool_choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::Required => Some("required".into()),
        ToolChoice::None => Some("none".into()),
        ToolChoice::Tool(name) => Some(json!({ "type": "function", "function": { "name": name } })),
    }
}
