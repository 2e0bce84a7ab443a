//! Messages of AG-UI, and their conversion to and from the messages of a graph.

use serde_json::{Value, json};

/// Converts the messages of a state to messages of AG-UI. Messages without an id get one from their position.
pub(super) fn to_ag_ui(messages: &Value) -> Vec<Value> {
    let messages = messages.as_array().map(Vec::as_slice).unwrap_or_default();
    messages.iter().enumerate().filter_map(|(index, it)| message_to_ag_ui(index, it)).collect()
}

fn message_to_ag_ui(index: usize, message: &Value) -> Option<Value> {
    let role = match message["type"].as_str()? {
        "human" => "user",
        "ai" => "assistant",
        "system" => "system",
        "developer" => "developer",
        "tool" => "tool",
        _ => return None,
    };
    let id = message["id"].as_str().map_or_else(|| format!("message-{index}"), str::to_owned);
    let mut converted = json!({ "id": id, "role": role, "content": text_of(&message["content"]) });
    if let Some(name) = message["name"].as_str().filter(|_| role != "tool") {
        converted["name"] = json!(name);
    }
    if role == "tool" {
        converted["toolCallId"] = json!(message["tool_call_id"].as_str().unwrap_or_default());
    }
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !calls.is_empty() {
        converted["toolCalls"] = calls
            .iter()
            .map(|call| {
                let function =
                    json!({ "name": call["name"], "arguments": call["args"].to_string() });
                json!({ "id": call["id"], "type": "function", "function": function })
            })
            .collect();
    }
    Some(converted)
}

/// Returns the text of a message's content.
pub(in crate::langgraph) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => text_of_parts(blocks),
        _ => String::new(),
    }
}

/// Joins the texts of content blocks.
fn text_of_parts(parts: &[Value]) -> String {
    let text = |part: &Value| part.as_str().or(part["text"].as_str()).map(str::to_owned);
    parts.iter().filter_map(text).collect()
}

/// Converts a message of AG-UI to a message of a graph. Returns `None` for messages that a graph does not have, such as
/// activities. The error describes content that is not supported.
pub(in crate::langgraph) fn from_ag_ui(message: &Value) -> Result<Option<Value>, String> {
    let content = &message["content"];
    let content = match content {
        Value::Array(parts) if parts.iter().all(|it| it["type"] == "text") => {
            json!(text_of_parts(parts))
        }
        Value::Array(parts) => parts.iter().map(block).collect::<Result<_, _>>()?,
        Value::Null => json!(""),
        content => content.clone(),
    };
    let mut converted = json!({ "id": message["id"], "content": content });
    converted["type"] = match message["role"].as_str() {
        Some("user") => json!("human"),
        Some("assistant") => {
            let calls = message["toolCalls"].as_array().map(Vec::as_slice).unwrap_or_default();
            converted["tool_calls"] = calls.iter().map(tool_call).collect::<Result<_, _>>()?;
            json!("ai")
        }
        Some("system" | "developer") => json!("system"),
        Some("tool") => {
            converted["tool_call_id"] = message["toolCallId"].clone();
            json!("tool")
        }
        Some("activity" | "reasoning") => return Ok(None),
        _ => {
            return Err(format!(
                "message role {} is not supported; use one that AG-UI defines, such as `user`",
                message["role"]
            ));
        }
    };
    Ok(Some(converted))
}

/// Converts a part of a message's content.
fn block(part: &Value) -> Result<Value, String> {
    let (kind, source) = (part["type"].as_str().unwrap_or_default(), &part["source"]);
    match (kind, source["type"].as_str()) {
        ("text", _) => Ok(json!({ "type": "text", "text": part["text"] })),
        ("image", Some("url")) => {
            Ok(json!({ "type": "image_url", "image_url": { "url": source["value"] } }))
        }
        ("image", Some("data")) => {
            let kind = source["mimeType"].as_str().unwrap_or_default();
            let bytes = source["value"].as_str().unwrap_or_default();
            let url = format!("data:{kind};base64,{bytes}");
            Ok(json!({ "type": "image_url", "image_url": { "url": url } }))
        }
        _ => Err(format!("content of the type `{kind}` is not supported; send text or images")),
    }
}

fn tool_call(call: &Value) -> Result<Value, String> {
    let function = &call["function"];
    let text = function["arguments"].as_str().filter(|it| !it.is_empty()).unwrap_or("{}");
    let args: Value = serde_json::from_str(text)
        .map_err(|error| format!("the arguments of a tool call are not JSON: {error}"))?;
    Ok(json!({ "id": call["id"], "name": function["name"], "args": args, "type": "tool_call" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_converted_in_both_directions() {
        let call = json!({ "id": "c", "name": "add", "args": { "a": 1 }, "type": "tool_call" });
        let messages = json!([
            { "type": "human", "id": "1", "content": "hi" },
            { "type": "ai", "id": "2", "content": "", "tool_calls": [call] },
            { "type": "tool", "id": "3", "content": "2", "tool_call_id": "c" },
        ]);
        let converted = to_ag_ui(&messages);
        assert_eq!(converted[1]["toolCalls"][0]["function"]["arguments"], "{\"a\":1}");
        let back: Vec<_> = converted.iter().map(|it| from_ag_ui(it).unwrap().unwrap()).collect();
        assert_eq!(json!(back), messages);
    }

    #[test]
    fn unsupported_messages_are_rejected_or_left_out() {
        let message = |role: &str, content: Value| {
            from_ag_ui(&json!({ "id": "1", "role": role, "content": content }))
        };
        assert_eq!(message("activity", json!({})), Ok(None));
        assert!(message("surprise", json!("x")).is_err());
        let audio = json!([{ "type": "audio", "source": { "type": "url", "value": "u" } }]);
        assert!(message("user", audio).is_err());
        let parts = json!([{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }]);
        assert_eq!(message("user", parts).unwrap().unwrap()["content"], "ab");
    }
}
