//! Encodes requests.

use serde_json::{Map, Value, json};

use super::super::{
    call_error::CallError,
    common, family, media, provider_tool,
    schema::{self, Dialect},
};
use crate::{ErrorKind, Message, Part, Request, Role, Tool, ToolCall, ToolChoice};

pub(crate) fn body(
    model: &str,
    request: &Request,
    stream: bool,
) -> Result<Map<String, Value>, CallError> {
    if !request.stop.is_empty() {
        let message =
            "OpenAI's Responses API does not support stop sequences; use chat completions";
        return Err(CallError::new(ErrorKind::BadRequest, message));
    }
    media::check(request, media::responses_rejects)?;
    let mut body = Map::new();
    let mut put = |key: &str, value: Value| drop(body.insert(key.to_owned(), value));
    put("model", model.into());
    put("input", request.messages.iter().flat_map(items).collect());
    put("max_output_tokens", request.max_tokens.into());
    // Every request contains the whole conversation, so the provider need not store it.
    put("store", false.into());
    if let Some(system) = &request.system {
        put("instructions", system.as_str().into());
    }
    let mut include = Vec::new();
    if family::is_openai_reasoning(model) {
        // The provider stores nothing, so the response must contain the encrypted reasoning, which the next request
        // sends back.
        include.push("reasoning.encrypted_content");
    }
    if let Some(alternatives) = request.logprobs {
        include.push("message.output_text.logprobs");
        put("top_logprobs", alternatives.into());
    }
    if !include.is_empty() {
        put("include", include.into());
    }
    if let Some(temperature) = request.temperature {
        put("temperature", temperature.into());
    }
    if let (Some(effort), false) = (request.effort, family::is_openai_plain(model)) {
        put("reasoning", json!({ "effort": family::openai_effort(model, effort) }));
    }
    if !request.tools.is_empty() {
        put("tools", request.tools.iter().map(tool).collect());
        if let Some(choice) = tool_choice(&request.tool_choice) {
            put("tool_choice", choice);
        }
        if let Some(parallel) = request.parallel_tool_calls {
            put("parallel_tool_calls", parallel.into());
        }
    }
    schema::check_strict(request, |it| schema::adapt(it, Dialect::OpenAi).is_some())?;
    if let Some(schema) = &request.schema {
        let mut format = schema::openai_schema(schema, request.strict_schema, Dialect::OpenAi);
        format["type"] = "json_schema".into();
        put("text", json!({ "format": format }));
    }
    if let Some(key) = &request.cache_key {
        put("prompt_cache_key", key.as_str().into());
    }
    if stream {
        put("stream", true.into());
    }
    provider_tool::put(request, &mut body, provider_tool::responses)?;
    Ok(body)
}

/// Encodes a message as a list of items, in the order of its parts: text, tool calls, tool results and reasoning.
fn items(message: &Message) -> Vec<Value> {
    let mut items: Vec<Value> = Vec::new();
    let (role, kind) = match message.role {
        Role::User => ("user", "input_text"),
        Role::Assistant => ("assistant", "output_text"),
        Role::System => ("system", "input_text"),
    };
    for part in &message.parts {
        match part {
            Part::Text { text } => {
                put_content(&mut items, role, json!({ "type": kind, "text": text }));
            }
            Part::Media(it) => put_content(&mut items, role, media::responses(it)),
            Part::Reasoning { opaque, .. } => {
                // The provider stores no reasoning, so only items that contain their encrypted content are useful.
                let has_content = |it: &&Value| it["encrypted_content"].is_string();
                items.extend(opaque.iter().find(has_content).cloned());
            }
            Part::ToolCall(call) => items.push(function_call(call)),
            Part::InvalidToolCall(call) => {
                items.push(function_call(&common::sendable_call(call)));
            }
            Part::ToolResult { id, content, failed, .. } => {
                let output = common::result_text(content, *failed);
                items.push(
                    json!({ "type": "function_call_output", "call_id": id, "output": output }),
                );
            }
        }
    }
    items
}

fn function_call(call: &ToolCall) -> Value {
    json!({
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments.to_string(),
    })
}

/// Adds a content part to the last item if it is a message, and to a new message otherwise.
fn put_content(items: &mut Vec<Value>, role: &str, part: Value) {
    // Reasoning items also have a `content` list, but text must not be added to it.
    let message = items.last_mut().filter(|it| it["type"] == "message");
    match message.and_then(|it| it["content"].as_array_mut()) {
        Some(content) => content.push(part),
        None => items.push(json!({ "type": "message", "role": role, "content": [part] })),
    }
}

fn tool(tool: &Tool) -> Value {
    let mut function = common::function(tool, Dialect::OpenAi, "parameters");
    function["type"] = "function".into();
    function
}

fn tool_choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::Required => Some("required".into()),
        ToolChoice::None => Some("none".into()),
        ToolChoice::Tool(name) => Some(json!({ "type": "function", "name": name })),
    }
}
