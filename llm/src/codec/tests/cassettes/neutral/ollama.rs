//! Parses the bodies of Ollama's chat API.

use serde_json::Value;

use super::fields::{effort, put_common, remove_unsupported, schema, take_list, text, tools};
use crate::{Effort, Message, Part, Request, Role, ToolCall};

pub(super) fn read(body: &mut Value) -> Request {
    let mut request = Request::conversation(Vec::new());
    let mut kept = Vec::new();
    for message in take_list(body, "messages") {
        let content_text = text(&message, "content");
        match text(&message, "role").as_str() {
            "system" if kept.is_empty() => request.system = Some(content_text),
            "user" => request.messages.push(Message::user(content_text)),
            "assistant" => request.messages.push(assistant(&message, content_text)),
            "tool" => {
                let (id, name) = (String::new(), text(&message, "tool_name"));
                let result = Part::ToolResult { id, name, content: content_text, failed: false };
                request.messages.push(Message::new(Role::User, vec![result]));
            }
            // Skips system messages that are not the first message.
            _ => continue,
        }
        kept.push(message);
    }
    body["messages"] = kept.into();
    put_common(&mut request, &mut body["options"], "num_predict", "stop");
    request.tools = tools(body, "parameters");
    if body["format"].is_object() {
        request.schema = Some(schema(&Value::Null, &body["format"]));
    } else {
        remove_unsupported(body, "format");
    }
    let think = body["think"].as_bool().map(|it| if it { Effort::High } else { Effort::None });
    request.effort = think.or_else(|| effort(&body["think"]));
    request
}

fn assistant(message: &Value, content_text: String) -> Message {
    let mut parts = Vec::new();
    if message["thinking"].is_string() {
        parts.push(Part::Reasoning { text: text(message, "thinking"), opaque: None });
    }
    parts.push(Part::text(content_text));
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        parts.push(Part::ToolCall(ToolCall {
            id: text(call, "id"),
            name: text(&call["function"], "name"),
            arguments: call["function"]["arguments"].clone(),
            opaque: None,
        }));
    }
    Message::new(Role::Assistant, parts)
}
