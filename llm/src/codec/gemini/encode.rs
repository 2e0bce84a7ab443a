//! Encodes requests.

use serde_json::{Map, Value, json};

use super::super::{
    builder,
    call_error::CallError,
    common, family, media, provider_tool,
    schema::{self, Dialect},
};
use crate::{Effort, Message, Part, Request, Role, Tool, ToolCall, ToolChoice};

pub(crate) fn body(model: &str, request: &Request) -> Result<Map<String, Value>, CallError> {
    media::check(request, |_| None)?;
    schema::check_strict(request, |it| schema::adapt(it, Dialect::Gemini).is_some())?;
    let mut body = Map::new();
    let mut put = |key: &str, value: Value| drop(body.insert(key.to_owned(), value));
    put("contents", request.messages.iter().filter_map(content).collect());
    put("generationConfig", config(model, request).into());
    if let Some(system) = &request.system {
        put("systemInstruction", json!({ "parts": [{ "text": system }] }));
    }
    if !request.tools.is_empty() {
        let functions: Value = request.tools.iter().map(function).collect();
        put("tools", json!([{ "functionDeclarations": functions }]));
        if let Some(calling) = calling(&request.tool_choice) {
            put("toolConfig", json!({ "functionCallingConfig": calling }));
        }
    }
    provider_tool::put(request, &mut body, provider_tool::gemini)?;
    Ok(body)
}

fn content(message: &Message) -> Option<Value> {
    let role = match message.role {
        Role::User | Role::System => "user",
        Role::Assistant => "model",
    };
    let mut parts = Vec::new();
    if message.role == Role::System {
        parts.push(json!({ "text": common::system_element(message) }));
    } else {
        message.parts.iter().for_each(|part| put_part(part, &mut parts));
    }
    (!parts.is_empty()).then(|| json!({ "role": role, "parts": parts }))
}

fn put_part(part: &Part, parts: &mut Vec<Value>) {
    match part {
        Part::Text { text } => parts.push(json!({ "text": text })),
        Part::Reasoning { text, opaque } => {
            if let Some(signature) = opaque.as_ref().and_then(signature) {
                put_thought(text, signature, parts);
            }
        }
        Part::Media(it) => parts.push(media::gemini(it)),
        Part::ToolCall(call) => parts.push(function_call(call)),
        Part::InvalidToolCall(call) => parts.push(function_call(&common::sendable_call(call))),
        Part::ToolResult { id, name, content, failed } => {
            let response =
                if *failed { json!({ "error": content }) } else { json!({ "result": content }) };
            let mut response = json!({ "name": name, "response": response });
            if !builder::is_generated_id(id) {
                response["id"] = id.as_str().into();
            }
            parts.push(json!({ "functionResponse": response }));
        }
    }
}

/// Adds a thought with its signature. If the thought has no text, adds its signature to the preceding text part.
fn put_thought(text: &str, signature: &str, parts: &mut Vec<Value>) {
    let is_open = |it: &Value| it["text"].is_string() && it["thoughtSignature"].is_null();
    match parts.last_mut() {
        _ if !text.is_empty() => {
            parts.push(json!({ "text": text, "thought": true, "thoughtSignature": signature }));
        }
        Some(text_part) if is_open(text_part) => text_part["thoughtSignature"] = signature.into(),
        _ => parts.push(json!({ "text": "", "thoughtSignature": signature })),
    }
}

fn function_call(call: &ToolCall) -> Value {
    let mut function = json!({ "name": call.name, "args": call.arguments });
    if !builder::is_generated_id(&call.id) {
        function["id"] = call.id.as_str().into();
    }
    let mut part = json!({ "functionCall": function });
    if let Some(signature) = call.opaque.as_ref().and_then(signature) {
        part["thoughtSignature"] = signature.into();
    }
    part
}

fn signature(opaque: &Value) -> Option<&str> {
    opaque["thoughtSignature"].as_str()
}

fn config(model: &str, request: &Request) -> Map<String, Value> {
    let mut config = common::sampling_options(request, "stopSequences");
    let mut put = |key: &str, value: Value| drop(config.insert(key.to_owned(), value));
    put("maxOutputTokens", request.max_tokens.into());
    if let Some(schema) = &request.schema {
        put("responseMimeType", "application/json".into());
        // If this dialect cannot express the schema, the model sees it only in the prompt. The caller validates the
        // response in any case.
        if let Some(schema) = schema::adapt(&schema.schema, Dialect::Gemini) {
            put("responseJsonSchema", schema);
        }
    }
    if let Some(alternatives) = request.logprobs {
        put("responseLogprobs", true.into());
        if alternatives > 0 {
            put("logprobs", alternatives.into());
        }
    }
    if let Some(effort) = request.effort {
        put("thinkingConfig", thinking(model, effort));
    }
    config
}

/// Encodes the effort. Newer models accept a level, and older ones a number of tokens.
fn thinking(model: &str, effort: Effort) -> Value {
    let show = effort != Effort::None;
    if family::gemini_version(model) >= 3 {
        let level = if show { family::effort_level(effort) } else { "minimal" };
        return json!({ "thinkingLevel": level, "includeThoughts": show });
    }
    let budget = match effort {
        // Pro models cannot turn reasoning off. This is the smallest thinking budget that they accept.
        Effort::None if model.contains("pro") => 128,
        Effort::None => 0,
        Effort::Low => 1024,
        Effort::Medium => 8192,
        Effort::High => 24_576,
    };
    json!({ "thinkingBudget": budget, "includeThoughts": show })
}

fn function(tool: &Tool) -> Value {
    let Tool { name, description, parameters, .. } = tool;
    json!({ "name": name, "description": description, "parametersJsonSchema": schema::plain(parameters) })
}

fn calling(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::Required => Some(json!({ "mode": "ANY" })),
        ToolChoice::None => Some(json!({ "mode": "NONE" })),
        ToolChoice::Tool(name) => Some(json!({ "mode": "ANY", "allowedFunctionNames": [name] })),
    }
}
