//! The `tools` stream: the start and end of tool calls.

use serde_json::{Value, json};

/// Returns the events that a message stands for: a message of a model starts its tool calls, and the result of a tool
/// ends its call.
pub(super) fn tool_events(message: &Value) -> Vec<Value> {
    if message["type"] == "tool" {
        let (event, result) = match message["status"].as_str() {
            Some("error") => ("on_tool_error", "error"),
            _ => ("on_tool_end", "output"),
        };
        let mut end = json!({
            "event": event,
            "toolCallId": message["tool_call_id"],
            "name": message["name"],
        });
        end[result] = message["content"].clone();
        return vec![end];
    }
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    let start = |call: &Value| {
        json!({
            "event": "on_tool_start",
            "toolCallId": call["id"],
            "name": call["name"],
            "input": call["args"],
        })
    };
    calls.iter().map(start).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::tool_events;

    #[test]
    fn tool_calls_start_and_end() {
        let call = json!({ "id": "c1", "name": "add", "args": { "a": 1 } });
        let starts = tool_events(&json!({ "type": "ai", "content": "", "tool_calls": [call] }));
        let expected = json!({ "event": "on_tool_start", "toolCallId": "c1", "name": "add", "input": { "a": 1 } });
        assert_eq!(starts, [expected]);
        let result = json!({ "type": "tool", "content": "2", "tool_call_id": "c1", "name": "add" });
        let expected =
            json!({ "event": "on_tool_end", "toolCallId": "c1", "name": "add", "output": "2" });
        assert_eq!(tool_events(&result), [expected]);
        assert!(tool_events(&json!({ "type": "human", "content": "hi" })).is_empty());
    }
}
