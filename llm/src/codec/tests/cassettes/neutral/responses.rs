//! Parses the bodies of OpenAI's Responses API.

use serde_json::{Value, json};

use super::fields::{
    effort, merge_text, put_common, remove, remove_unsupported, schema, take_list, text,
    tool_choice, tools,
};
use crate::{Message, Part, Request, Role, ToolCall};

pub(super) fn read(body: &mut Value) -> Request {
    let mut request = Request::conversation(Vec::new());
    if body["input"].is_string() {
        body["input"] = json!([{ "type": "message", "role": "user", "content": body["input"] }]);
    }
    let mut kept = Vec::new();
    for mut item in take_list(body, "input") {
        let role = text(&item, "role");
        let is_first = kept.is_empty() && body["instructions"].is_null();
        if matches!(role.as_str(), "system" | "developer") {
            let content_text = merge_text(&mut item, "content");
            if is_first {
                // Moves instructions from the first message to the field `instructions`, because our codec writes that
                // field.
                body["instructions"] = content_text.into();
            }
            continue;
        }
        if let Some(message) = message(&mut item) {
            request.messages.push(message);
            kept.push(item);
        }
    }
    body["input"] = kept.into();
    request.system = body["instructions"].as_str().map(str::to_owned);
    put_common(&mut request, body, "max_output_tokens", "stop");
    // The API has no seed parameter.
    request.seed = None;
    request.tools = tools(body, "parameters");
    request.tool_choice = tool_choice(body);
    let format = &body["text"]["format"];
    if format["type"] == "json_schema" {
        request.schema = Some(schema(&format["name"], &format["schema"]));
    } else {
        remove_unsupported(body, "text");
    }
    request.effort = effort(&body["reasoning"]["effort"]);
    if request.effort.is_none() {
        remove_unsupported(body, "reasoning");
    }
    request.cache_key = body["prompt_cache_key"].as_str().map(str::to_owned);
    request
}

fn message(item: &mut Value) -> Option<Message> {
    let kind = item["type"].as_str().unwrap_or("message").to_owned();
    let (role, part) = match kind.as_str() {
        "message" => return text_message(item),
        "reasoning" if item["encrypted_content"].is_string() => {
            (Role::Assistant, Part::Reasoning { text: String::new(), opaque: Some(item.clone()) })
        }
        "function_call" => {
            let arguments = serde_json::from_str(&text(item, "arguments"));
            let call = ToolCall {
                id: text(item, "call_id"),
                name: text(item, "name"),
                arguments: arguments.unwrap_or_else(|_| json!({})),
                opaque: None,
            };
            (Role::Assistant, Part::ToolCall(call))
        }
        "function_call_output" => {
            let content = merge_text(item, "output");
            let (id, name) = (text(item, "call_id"), String::new());
            (Role::User, Part::ToolResult { id, name, content, failed: false })
        }
        _ => return None,
    };
    Some(Message::new(role, vec![part]))
}

fn text_message(item: &mut Value) -> Option<Message> {
    let (role, kind) = match item["role"].as_str() {
        Some("assistant") => (Role::Assistant, "output_text"),
        _ => (Role::User, "input_text"),
    };
    if item["content"].is_string() {
        item["content"] = json!([{ "type": kind, "text": item["content"] }]);
    }
    let mut parts = Vec::new();
    let mut kept = Vec::new();
    for mut part in take_list(item, "content") {
        if part["type"] != kind {
            continue;
        }
        remove(&mut part, "annotations");
        parts.push(Part::text(text(&part, "text")));
        kept.push(part);
    }
    item["content"] = kept.into();
    (!parts.is_empty()).then(|| Message::new(role, parts))
}
