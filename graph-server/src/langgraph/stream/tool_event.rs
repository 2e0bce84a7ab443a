//! The start and end of tool calls, for the `tools` streams.

use serde_json::{Value, json};

use super::item::MessageItem;

/// The start or the end of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::langgraph) enum ToolEvent {
    Started { call: Value, name: Value, input: Value },
    Finished { call: Value, name: Value, output: Value },
    Failed { call: Value, name: Value, error: Value },
}

/// Returns the tool events of a message: a message of a model starts its tool calls, and the result of a tool ends its
/// call. Pieces of messages produce no events, because their tool calls are incomplete.
pub(in crate::langgraph) fn tool_events(item: &MessageItem) -> Vec<ToolEvent> {
    let message = &item.message;
    if item.so_far.is_some() {
        return Vec::new();
    }
    if message["type"] == "tool" {
        let (call, name) = (message["tool_call_id"].clone(), message["name"].clone());
        let content = message["content"].clone();
        return vec![match message["status"].as_str() {
            Some("error") => ToolEvent::Failed { call, name, error: content },
            _ => ToolEvent::Finished { call, name, output: content },
        }];
    }
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    let start = |call: &Value| ToolEvent::Started {
        call: call["id"].clone(),
        name: call["name"].clone(),
        input: call["args"].clone(),
    };
    calls.iter().map(start).collect()
}

impl ToolEvent {
    /// Encodes the event for the stream mode `tools`.
    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Started { call, name, input } => {
                json!({ "event": "on_tool_start", "toolCallId": call, "name": name, "input": input })
            }
            Self::Finished { call, name, output } => {
                json!({ "event": "on_tool_end", "toolCallId": call, "name": name, "output": output })
            }
            Self::Failed { call, name, error } => {
                json!({ "event": "on_tool_error", "toolCallId": call, "name": name, "error": error })
            }
        }
    }

    /// Encodes the event for the channel `tools` of the event protocol.
    pub(super) fn to_protocol_json(&self) -> Value {
        match self {
            Self::Started { call, name, input } => {
                json!({ "event": "tool-started", "tool_call_id": call, "tool_name": name, "input": input })
            }
            Self::Finished { call, output, .. } => {
                json!({ "event": "tool-finished", "tool_call_id": call, "output": output })
            }
            Self::Failed { call, error, .. } => {
                let message = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
                json!({ "event": "tool-error", "tool_call_id": call, "message": message })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::item::Origin, *};

    fn item(message: Value, so_far: Option<Value>) -> MessageItem {
        let origin =
            Origin { namespace: "".into(), step: 1, node: "model".into(), task: "t1".into() };
        MessageItem { origin, message, so_far, first: true, arguments: None }
    }

    #[test]
    fn tool_calls_start_and_end() {
        let call = json!({ "id": "c1", "name": "add", "args": { "a": 1 } });
        let message = json!({ "type": "ai", "content": "", "tool_calls": [call] });
        let started = tool_events(&item(message.clone(), None));
        let expected = json!({ "event": "on_tool_start", "toolCallId": "c1", "name": "add", "input": { "a": 1 } });
        assert_eq!(started[0].to_json(), expected);
        let expected = json!({ "event": "tool-started", "tool_call_id": "c1", "tool_name": "add", "input": { "a": 1 } });
        assert_eq!(started[0].to_protocol_json(), expected);
        assert!(tool_events(&item(message.clone(), Some(message))).is_empty());
        let mut result =
            json!({ "type": "tool", "content": "2", "tool_call_id": "c1", "name": "add" });
        let expected =
            json!({ "event": "on_tool_end", "toolCallId": "c1", "name": "add", "output": "2" });
        assert_eq!(tool_events(&item(result.clone(), None))[0].to_json(), expected);
        result["status"] = json!("error");
        let failed = tool_events(&item(result, None));
        let expected = json!({ "event": "tool-error", "tool_call_id": "c1", "message": "2" });
        assert_eq!(failed[0].to_protocol_json(), expected);
        assert!(tool_events(&item(json!({ "type": "human", "content": "hi" }), None)).is_empty());
    }
}
