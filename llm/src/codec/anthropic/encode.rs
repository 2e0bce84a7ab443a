//! Encodes requests.

use serde_json::{Map, Value, json};

use super::super::{
    breakpoints,
    call_error::CallError,
    common, family, media, provider_tool,
    schema::{self, Dialect},
};
use crate::{Effort, ErrorKind, Message, Part, Request, Role, ToolCall, ToolChoice};

/// Minimum thinking budget in tokens, for models that accept a thinking budget.
const MIN_BUDGET: u32 = 1024;

pub(crate) fn body(
    model: &str,
    request: &Request,
    stream: bool,
) -> Result<Map<String, Value>, CallError> {
    media::check(request, media::anthropic_rejects)?;
    schema::check_strict(request, |it| schema::adapt(it, Dialect::Anthropic).is_some())?;
    if request.logprobs.is_some() {
        let message = "Anthropic does not report log probabilities; remove `logprobs`";
        return Err(CallError::new(ErrorKind::BadRequest, message));
    }
    let thinking = thinking(model, request);
    let mut body = Map::new();
    let mut put = |key: &str, value: Value| drop(body.insert(key.to_owned(), value));
    put("model", model.into());
    put("max_tokens", request.max_tokens.into());
    put("messages", messages(request).into());
    if let Some(system) = &request.system {
        let mut block = json!({ "type": "text", "text": system });
        if request.cache_system {
            block["cache_control"] = ephemeral();
        }
        put("system", json!([block]));
    }
    if request.cache_key.is_some() && !has_breakpoints(request) {
        // With this field, the provider sets a cache breakpoint at the end of the request.
        put("cache_control", ephemeral());
    }
    // Models reject a temperature while thinking is enabled.
    if let (Some(temperature), None) = (request.temperature, &thinking) {
        put("temperature", temperature.into());
    }
    if !request.stop.is_empty() {
        put("stop_sequences", request.stop.clone().into());
    }
    if !request.tools.is_empty() {
        put("tools", tools(request).into());
        if let Some(choice) = tool_choice(request) {
            put("tool_choice", choice);
        }
    }
    if let Some(thinking) = thinking {
        put("thinking", thinking);
    }
    if let Some(output) = output(model, request) {
        put("output_config", output);
    }
    if stream {
        put("stream", true.into());
    }
    provider_tool::put(request, &mut body, provider_tool::anthropic)?;
    Ok(body)
}

fn ephemeral() -> Value {
    json!({ "type": "ephemeral" })
}

fn has_breakpoints(request: &Request) -> bool {
    request.cache_system || request.messages.iter().any(|it| it.cache)
}

fn messages(request: &Request) -> Vec<Value> {
    let mut messages = Vec::new();
    for (message, has_breakpoint) in breakpoints::messages(request) {
        let mut blocks: Vec<_> = match message.role {
            Role::System => {
                vec![json!({ "type": "text", "text": common::system_element(message) })]
            }
            Role::User | Role::Assistant => message.parts.iter().filter_map(block).collect(),
        };
        if has_breakpoint
            && let Some(last) = blocks.iter_mut().rev().find(|it| takes_breakpoint(it))
        {
            last["cache_control"] = ephemeral();
        }
        if !blocks.is_empty() {
            messages.push(json!({ "role": role(message), "content": blocks }));
        }
    }
    messages
}

fn role(message: &Message) -> &'static str {
    match message.role {
        Role::User | Role::System => "user",
        Role::Assistant => "assistant",
    }
}

/// Encodes a part as a content block. Returns `None` for empty text and for thinking without a signature, because the
/// provider rejects both.
fn block(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text } if text.is_empty() => None,
        Part::Text { text } => Some(json!({ "type": "text", "text": text })),
        Part::Media(it) => Some(media::anthropic(it)),
        Part::Reasoning { text, opaque } => thought(text, opaque.as_ref()?),
        Part::ToolCall(call) => Some(tool_use(call)),
        Part::InvalidToolCall(call) => Some(tool_use(&common::sendable_call(call))),
        Part::ToolResult { id, content, failed, .. } => {
            let content = json!([{ "type": "text", "text": content }]);
            let mut block = json!({ "type": "tool_result", "tool_use_id": id, "content": content });
            if *failed {
                block["is_error"] = true.into();
            }
            Some(block)
        }
    }
}

fn tool_use(call: &ToolCall) -> Value {
    json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments })
}

fn thought(text: &str, opaque: &Value) -> Option<Value> {
    if opaque["type"] == "redacted_thinking" {
        return Some(opaque.clone());
    }
    let signature = opaque["signature"].as_str()?;
    Some(json!({ "type": "thinking", "thinking": text, "signature": signature }))
}

fn takes_breakpoint(block: &Value) -> bool {
    block["type"] != "thinking" && block["type"] != "redacted_thinking"
}

fn tools(request: &Request) -> Vec<Value> {
    let tool = |it| common::function(it, Dialect::Anthropic, "input_schema");
    let mut tools: Vec<_> = request.tools.iter().map(tool).collect();
    // Tools precede the system prompt, so the breakpoint of the system prompt covers them. Without a system prompt, the
    // tools need their own breakpoint.
    if let (true, None, Some(last)) = (request.cache_system, &request.system, tools.last_mut()) {
        last["cache_control"] = ephemeral();
    }
    tools
}

fn tool_choice(request: &Request) -> Option<Value> {
    let mut choice = match &request.tool_choice {
        ToolChoice::Auto if request.parallel_tool_calls.is_none() => return None,
        ToolChoice::Auto => json!({ "type": "auto" }),
        ToolChoice::Required => json!({ "type": "any" }),
        ToolChoice::None => return Some(json!({ "type": "none" })),
        ToolChoice::Tool(name) => json!({ "type": "tool", "name": name }),
    };
    if let Some(parallel) = request.parallel_tool_calls {
        choice["disable_parallel_tool_use"] = (!parallel).into();
    }
    Some(choice)
}

/// Returns whether the model itself decides how much to think for a given effort, instead of accepting a budget.
fn is_adaptive(model: &str) -> bool {
    family::claude_version(model) >= (4, 6)
}

fn thinking(model: &str, request: &Request) -> Option<Value> {
    let effort = request.effort?;
    if is_adaptive(model) {
        let kind = if effort == Effort::None { "disabled" } else { "adaptive" };
        return Some(json!({ "type": kind }));
    }
    let budget = match effort {
        Effort::None => return None,
        Effort::Low => MIN_BUDGET,
        Effort::Medium => 4 * MIN_BUDGET,
        Effort::High => 16 * MIN_BUDGET,
    };
    // At most half of `max_tokens` may be used for thinking, so that some tokens are left for the answer.
    let most = (request.max_tokens / 2).max(MIN_BUDGET);
    let fits = request.max_tokens > MIN_BUDGET;
    fits.then(|| json!({ "type": "enabled", "budget_tokens": budget.min(most) }))
}

fn output(model: &str, request: &Request) -> Option<Value> {
    let mut output = Map::new();
    let effort = request.effort.filter(|it| *it != Effort::None && is_adaptive(model));
    if let Some(effort) = effort {
        output.insert("effort".to_owned(), family::effort_level(effort).into());
    }
    // If this dialect cannot express the schema, the model sees it only in the prompt. The caller validates the
    // response in any case.
    let schema =
        request.schema.as_ref().and_then(|it| schema::adapt(&it.schema, Dialect::Anthropic));
    if let Some(schema) = schema {
        output.insert("format".to_owned(), json!({ "type": "json_schema", "schema": schema }));
    }
    (!output.is_empty()).then_some(Value::Object(output))
}
