//! Parses the bodies of OpenAI's chat completions.

use serde_json::{Value, json};

use super::fields::{
    any_json, effort, merge_text, put_common, remove_unsupported, schema, take_list, text,
    tool_choice, tools,
};
use crate::{Message, Part, Request, Role, ToolCall};

pub(super) fn read(body: &mut Value) -> Request {
    let mut request = Request::conversation(Vec::new());
    let mut kept = Vec::new();
    for mut message in take_list(body, "messages") {
        let content_text = merge_text(&mut message, "content");
        let role = text(&message, "role");
        match role.as_str() {
            "system" | "developer" if kept.is_empty() => {
                message["role"] = "system".into();
                request.system = Some(content_text);
            }
            "user" if !content_text.is_empty() => {
                request.messages.push(Message::user(content_text))
            }
            "assistant" => request.messages.push(assistant(&message, content_text)),
            "tool" => {
                let (id, name) = (text(&message, "tool_call_id"), text(&message, "name"));
                let result = Part::ToolResult { id, name, content: content_text, failed: false };
                request.messages.push(Message::new(Role::User, vec![result]));
            }
            // Skips empty user messages, and system messages that are not the first message.
            _ => continue,
        }
        kept.push(message);
    }
    body["messages"] = kept.into();
    put_common(&mut request, body, "max_tokens", "stop");
    request.tools = tools(body, "parameters");
    request.tool_choice = tool_choice(body);
    put_response_format(&mut request, body);
    put_effort(&mut request, body);
    remove_unsupported(body, "provider");
    request.cache_key = body["prompt_cache_key"].as_str().map(str::to_owned);
    request
}

fn assistant(message: &Value, content_text: String) -> Message {
    let mut parts = Vec::new();
    if message["reasoning_details"].is_array() {
        let opaque = Some(json!({ "reasoning_details": message["reasoning_details"] }));
        parts.push(Part::Reasoning { text: text(message, "reasoning"), opaque });
    } else if message["reasoning_content"].is_string() {
        parts.push(Part::Reasoning { text: text(message, "reasoning_content"), opaque: None });
    }
    parts.push(Part::text(content_text));
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let arguments = text(&call["function"], "arguments");
        parts.push(Part::ToolCall(ToolCall {
            id: text(call, "id"),
            name: text(&call["function"], "name"),
            arguments: serde_json::from_str(&arguments).unwrap_or_else(|_| json!({})),
            opaque: None,
        }));
    }
    Message::new(Role::Assistant, parts)
}

fn put_response_format(request: &mut Request, body: &mut Value) {
    let format = &body["response_format"];
    let request_body = &format["json_schema"];
    match format["type"].as_str() {
        Some("json_schema") => {
            request.schema = Some(schema(&request_body["name"], &request_body["schema"]))
        }
        // For these models, our codec always writes `json_object`, because they support only JSON mode without a
        // schema.
        Some("json_object") if text(body, "model").starts_with("llama-3") => {
            request.schema = Some(any_json());
        }
        _ => remove_unsupported(body, "response_format"),
    }
}

fn put_effort(request: &mut Request, body: &mut Value) {
    let thinks = &body["chat_template_kwargs"]["enable_thinking"];
    let thinks = thinks.as_bool().map(|it| json!(if it { "high" } else { "none" }));
    let efforts =
        [&body["reasoning_effort"], &body["reasoning"]["effort"], &thinks.unwrap_or_default()];
    request.effort = efforts.into_iter().find_map(effort);
    if request.effort.is_none() {
        remove_unsupported(body, "reasoning_effort");
        remove_unsupported(body, "reasoning");
        remove_unsupported(body, "chat_template_kwargs");
    }
}
