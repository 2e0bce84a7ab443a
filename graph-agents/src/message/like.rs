//! Short forms of messages in JSON: a text, a pair of role and text, an object with a role.
//!
//! Errors that LangChain also reports have LangChain's wording, including its Python terms.

use serde_json::{Map, Value};

use super::{
    content::Content,
    types::{AiMessage, InvalidToolCall, Message, Status, TextMessage, ToolCall, ToolMessage},
};
use crate::{AgentError, notation};

/// Converts JSON into messages. A value that is not a list counts as a list of one.
///
/// A message is a stored message (an object with `type`), a text (a human message), a pair `[role, text]`, or an
/// object with `role` and `content`.
///
/// ```
/// use graph_agents::{Message, messages_from_json};
/// use serde_json::json;
///
/// let messages = messages_from_json(&json!([
///     {"role": "system", "content": "Be brief."},
///     ["human", "How old is the Rhine?"],
/// ]))?;
/// assert_eq!(messages, [Message::system("Be brief."), Message::human("How old is the Rhine?")]);
/// # Ok::<(), graph_agents::AgentError>(())
/// ```
pub fn messages_from_json(value: &Value) -> Result<Vec<Message>, AgentError> {
    match value {
        Value::Null => Err(AgentError::value(
            "Must specify non-null arguments for both 'left' and 'right'. Only received: 'left'.",
        )),
        Value::Array(items) => items.iter().map(message_from_json).collect(),
        item => Ok(vec![message_from_json(item)?]),
    }
}

/// Converts JSON into a message; see [`messages_from_json`].
pub fn message_from_json(value: &Value) -> Result<Message, AgentError> {
    match value {
        Value::String(text) => Ok(Message::human(text.as_str())),
        Value::Array(pair) => match pair.as_slice() {
            [Value::String(role), content] => from_role(role, content, &Map::new()),
            _ => Err(AgentError::named(
                "NotImplementedError",
                "Message as a sequence must be (role string, template)",
            )),
        },
        Value::Object(object) => {
            let role = object.get("role").or_else(|| object.get("type"));
            match (role.and_then(Value::as_str), object.get("content")) {
                (Some("remove"), None) => from_role("remove", &Value::Null, object),
                (Some(role), Some(content)) => from_role(role, content, object),
                _ => Err(AgentError::value(format!(
                    "Message dict must contain 'role' and 'content' keys, got {}",
                    notation::python_object(object)
                ))),
            }
        }
        other => Err(unsupported(other)),
    }
}

fn unsupported(value: &Value) -> AgentError {
    let class = match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    };
    AgentError::named("NotImplementedError", format!("Unsupported message type: <class '{class}'>"))
}

fn from_role(
    role: &str,
    content: &Value,
    object: &Map<String, Value>,
) -> Result<Message, AgentError> {
    let content = match content {
        Value::String(text) => Content::Text(text.clone()),
        Value::Array(blocks) => Content::Blocks(blocks.clone()),
        Value::Null => Content::default(),
        other => return Err(unsupported(other)),
    };
    let id = text(object, "id");
    let name = text(object, "name");
    match role {
        "user" | "human" => {
            Ok(Message::Human(TextMessage { content, id, name, source: text(object, "source") }))
        }
        "system" | "developer" => {
            Ok(Message::System(TextMessage { content, id, name, source: text(object, "source") }))
        }
        "assistant" | "ai" => {
            let mut message = AiMessage { content, id, name, ..AiMessage::default() };
            for call in list(object, "tool_calls") {
                add_call(&mut message, call)?;
            }
            for call in list(object, "invalid_tool_calls") {
                message.invalid_tool_calls.push(read(call)?);
            }
            message.usage = object.get("usage").map(read).transpose()?;
            message.reasoning = object.get("reasoning").map(read).transpose()?.unwrap_or_default();
            message.logprobs = object.get("logprobs").map(read).transpose()?.unwrap_or_default();
            Ok(Message::Ai(message))
        }
        "tool" => Ok(Message::Tool(ToolMessage {
            content,
            id,
            name,
            tool_call_id: text(object, "tool_call_id")
                .ok_or_else(|| AgentError::value("a tool message must contain 'tool_call_id'"))?,
            status: match object.get("status") {
                Some(status) => read(status)?,
                None => Status::Success,
            },
            artifact: object.get("artifact").filter(|it| !it.is_null()).cloned(),
        })),
        "remove" => match id {
            Some(id) => Ok(Message::Remove { id }),
            None => Err(AgentError::value("a removal must contain 'id'")),
        },
        other => Err(AgentError::value(format!(
            "Unexpected message type: '{other}'. Use one of 'human', 'user', 'ai', 'assistant', 'function', 'tool', \
             'system', or 'developer'."
        ))),
    }
}

/// Adds a tool call, flat or nested under `function`. Arguments that are JSON text are parsed.
fn add_call(message: &mut AiMessage, call: &Value) -> Result<(), AgentError> {
    let Some(function) = call.get("function") else {
        message.tool_calls.push(read(call)?);
        return Ok(());
    };
    let name = function["name"].as_str().map(str::to_owned);
    let id = call["id"].as_str().map(str::to_owned);
    let args = match &function["arguments"] {
        Value::String(text) => serde_json::from_str(text).ok(),
        Value::Object(args) => Some(args.clone()),
        _ => None,
    };
    match (name, args) {
        (Some(name), Some(args)) => {
            message.tool_calls.push(ToolCall { name, args, id, opaque: None });
        }
        (name, _) => {
            let args = function["arguments"].as_str().map(str::to_owned);
            let call = InvalidToolCall { name, args, id, ..InvalidToolCall::default() };
            message.invalid_tool_calls.push(call);
        }
    }
    Ok(())
}

fn text(object: &Map<String, Value>, key: &str) -> Option<String> {
    object.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn list<'a>(object: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    object.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, AgentError> {
    T::deserialize(value).map_err(|error| AgentError::value(error.to_string()))
}
