//! Conversion between the messages of this crate and those of the crate `llm`.

use llm::{Part, Role};
use serde_json::{Map, Value};

use super::{
    content::Content,
    types::{AiMessage, InvalidToolCall, Message, Status, ToolCall},
};

/// Converts messages for a request. Returns the system prompt and the conversation.
///
/// System messages are joined into the system prompt, because a request has only one. Consecutive tool results become
/// one message, because providers expect the results of parallel calls together.
pub(crate) fn to_llm(messages: &[Message]) -> (Option<String>, Vec<llm::Message>) {
    let mut system = Vec::new();
    let mut conversation: Vec<llm::Message> = Vec::new();
    for message in messages {
        match message {
            Message::System(it) => system.push(it.content.text()),
            Message::Human(it) => conversation.push(llm::Message::user(it.content.text())),
            Message::Ai(it) => {
                conversation.push(llm::Message::new(Role::Assistant, ai_parts(it)));
            }
            Message::Tool(it) => {
                let part = Part::ToolResult {
                    id: it.tool_call_id.clone(),
                    name: it.name.clone().unwrap_or_default(),
                    content: content_text(&it.content),
                    failed: it.status == Status::Error,
                };
                match conversation.last_mut() {
                    Some(last) if matches!(last.parts.last(), Some(Part::ToolResult { .. })) => {
                        last.parts.push(part);
                    }
                    _ => conversation.push(llm::Message::new(Role::User, vec![part])),
                }
            }
            Message::Remove { .. } => {}
        }
    }
    ((!system.is_empty()).then(|| system.join("\n\n")), conversation)
}

fn ai_parts(message: &AiMessage) -> Vec<Part> {
    let text = message.content.text();
    let text = (!text.is_empty()).then(|| Part::text(text));
    let calls = message.tool_calls.iter().map(|call| {
        Part::ToolCall(llm::ToolCall {
            id: call.id().to_owned(),
            name: call.name.clone(),
            arguments: Value::Object(call.args.clone()),
            opaque: call.opaque.clone(),
        })
    });
    message.reasoning.iter().cloned().chain(text).chain(calls).collect()
}

/// Returns the content of a tool result as text. Blocks that are not text become JSON.
fn content_text(content: &Content) -> String {
    match content {
        Content::Text(text) => text.clone(),
        Content::Blocks(blocks) if blocks.iter().all(|it| it["type"] == "text") => content.text(),
        Content::Blocks(blocks) => Value::from(blocks.clone()).to_string(),
    }
}

/// Converts a model's response. A tool call whose arguments are not an object and contain none becomes an invalid call.
pub(crate) fn from_response(response: llm::Response) -> AiMessage {
    let mut message = AiMessage::new(response.text());
    message.usage = response.usage;
    for part in response.content {
        match part {
            Part::ToolCall(llm::ToolCall { id, name, arguments: Value::Object(args), opaque }) => {
                message.tool_calls.push(ToolCall { name, args, id: Some(id), opaque });
            }
            Part::ToolCall(call) => {
                let args = match call.arguments {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                let id = Some(call.id);
                match object_in(&args) {
                    Some(args) => message.tool_calls.push(ToolCall {
                        name: call.name,
                        args,
                        id,
                        opaque: call.opaque,
                    }),
                    None => message.invalid_tool_calls.push(InvalidToolCall {
                        name: Some(call.name),
                        args: Some(args),
                        id,
                    }),
                }
            }
            reasoning @ Part::Reasoning { .. } => message.reasoning.push(reasoning),
            Part::Text { .. } | Part::ToolResult { .. } => {}
        }
    }
    message
}

/// Returns the JSON object in a text of a weak model, such as an object in a code block, an object that is followed by
/// other text, or an object that was encoded twice. An incomplete object is never completed.
fn object_in(text: &str) -> Option<Map<String, Value>> {
    let inner: Option<String> = serde_json::from_str(text).ok();
    let text = inner.as_deref().unwrap_or(text);
    let start = text.find('{')?;
    serde_json::Deserializer::from_str(&text[start..]).into_iter().next()?.ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn complete_objects_are_found_in_malformed_arguments() {
        let expected = json!({"city": "Rome"});
        for text in [
            "```json\n{\"city\": \"Rome\"}\n```",
            "{\"city\": \"Rome\"}</tool_call>",
            "\"{\\\"city\\\": \\\"Rome\\\"}\"",
        ] {
            assert_eq!(object_in(text).map(Value::Object), Some(expected.clone()), "{text}");
        }
        for text in ["{\"city\": \"Ro", "", "[1]", "null", "{\"a\": {\"b\": 1}"] {
            assert_eq!(object_in(text), None, "{text}");
        }
    }
}
