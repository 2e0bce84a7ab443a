//! Parses the bodies of Anthropic's Messages API.

use serde_json::{Value, json};

use super::fields::{
    effort, merge_text, put_common, remove, remove_unsupported, schema, take_list, text,
    tool_choice, tools,
};
use crate::{Effort, Message, Part, Request, Role, ToolCall};

pub(super) fn read(body: &mut Value) -> Request {
    let mut request = Request::conversation(Vec::new());
    put_system(&mut request, body);
    let mut kept = Vec::new();
    for mut message in take_list(body, "messages") {
        if let Some(read) = read_message(&mut message) {
            request.messages.push(read);
            kept.push(message);
        }
    }
    body["messages"] = kept.into();
    put_common(&mut request, body, "max_tokens", "stop_sequences");
    request.seed = None;
    request.tools = tools(body, "input_schema");
    put_breakpoints(&mut request, body);
    request.tool_choice = tool_choice(body);
    put_thinking(&mut request, body);
    let format = &body["output_config"]["format"];
    if format["type"] == "json_schema" {
        request.schema = Some(schema(&Value::Null, &format["schema"]));
    }
    request
}

/// Merges the system texts into one text, which gets a cache breakpoint if any of the merged texts has one.
fn put_system(request: &mut Request, body: &mut Value) {
    let Some(mut system) = remove(body, "system").map(|it| json!({ "content": it })) else {
        return;
    };
    let breakpoint = system["content"].as_array().into_iter().flatten().rev();
    let breakpoint = breakpoint.map(|it| it["cache_control"].clone()).find(|it| !it.is_null());
    let content_text = merge_text(&mut system, "content");
    let mut block = json!({ "type": "text", "text": content_text });
    if let Some(breakpoint) = breakpoint {
        block["cache_control"] = breakpoint;
        request.cache_system = true;
    }
    body["system"] = json!([block]);
    request.system = Some(content_text);
}

fn read_message(message: &mut Value) -> Option<Message> {
    let role = if message["role"] == "assistant" { Role::Assistant } else { Role::User };
    if message["content"].is_string() {
        message["content"] = json!([{ "type": "text", "text": message["content"] }]);
    }
    let mut read = Message::new(role, Vec::new());
    let mut kept: Vec<Value> = Vec::new();
    for mut block in take_list(message, "content") {
        let Some(part) = part(&mut block) else { continue };
        if let Some(last) = kept.last_mut() {
            remove_unsupported(last, "cache_control");
        }
        read.parts.push(part);
        kept.push(block);
    }
    read.cache = kept.last().is_some_and(|it| it["cache_control"].is_object());
    message["content"] = kept.into();
    (!read.parts.is_empty()).then_some(read)
}

fn part(block: &mut Value) -> Option<Part> {
    match text(block, "type").as_str() {
        "text" => Some(Part::text(text(block, "text"))),
        "thinking" => {
            let opaque = Some(json!({ "signature": block["signature"] }));
            Some(Part::Reasoning { text: text(block, "thinking"), opaque })
        }
        "redacted_thinking" => {
            Some(Part::Reasoning { text: String::new(), opaque: Some(block.clone()) })
        }
        "tool_use" => Some(Part::ToolCall(ToolCall {
            id: text(block, "id"),
            name: text(block, "name"),
            arguments: block["input"].clone(),
            opaque: None,
        })),
        "tool_result" => {
            let content = merge_text(block, "content");
            block["content"] = json!([{ "type": "text", "text": content }]);
            let failed = block["is_error"] == true;
            if !failed {
                remove(block, "is_error");
            }
            let (id, name) = (text(block, "tool_use_id"), String::new());
            Some(Part::ToolResult { id, name, content, failed })
        }
        _ => None,
    }
}

/// Parses the cache breakpoints of tools and the automatic cache breakpoint.
fn put_breakpoints(request: &mut Request, body: &mut Value) {
    let n_tools = request.tools.len();
    for (path, tool) in body["tools"].as_array_mut().into_iter().flatten().enumerate() {
        let is_ours = path + 1 == n_tools && request.system.is_none();
        if is_ours && tool["cache_control"].is_object() {
            request.cache_system = true;
        } else {
            remove_unsupported(tool, "cache_control");
        }
    }
    let has_breakpoints = request.cache_system || request.messages.iter().any(|it| it.cache);
    if has_breakpoints {
        remove_unsupported(body, "cache_control");
    } else if body["cache_control"].is_object() {
        request.cache_key = Some("one".to_owned());
    }
}

fn put_thinking(request: &mut Request, body: &mut Value) {
    request.effort = match body["thinking"]["type"].as_str() {
        Some("disabled") => Some(Effort::None),
        Some(_) => Some(Effort::Low),
        None => None,
    };
    if let Some(effort) = effort(&body["output_config"]["effort"]) {
        request.effort = Some(effort);
    }
    if request.effort.is_some() {
        // With thinking, the API allows only the default temperature.
        remove_unsupported(body, "temperature");
        request.temperature = None;
    }
}
