//! The UI message stream of the AI SDK.

use serde_json::{Value, json};

use super::{
    events::UiEncoder,
    tool_calls::{ToolCalls, ToolPart},
};
use crate::langgraph::stream::protocol::ProtocolContent;

/// Last data of every stream.
const DONE: &str = "[DONE]";

/// Encodes the events of a run as a UI message stream: one message of the assistant, with one step for each message of
/// a model.
#[derive(Debug)]
pub(in crate::langgraph) struct AiSdk {
    message_id: String,
    tools: ToolCalls,
    /// Parts that are arriving: their kind and id.
    open: Vec<(&'static str, String)>,
    in_step: bool,
}

impl AiSdk {
    /// Creates an encoder. `message_id` is the id of the message that the stream creates.
    pub(in crate::langgraph) fn new(message_id: String) -> Self {
        Self { message_id, tools: ToolCalls::default(), open: Vec::new(), in_step: false }
    }

    fn message(&mut self, data: &Value) -> Vec<Value> {
        let id = format!("{}-{}", data["message_id"].as_str().unwrap_or_default(), data["index"]);
        match data["event"].as_str() {
            Some("message-start") => {
                let mut chunks = self.end_step();
                self.in_step = true;
                chunks.push(json!({ "type": "start-step" }));
                chunks
            }
            Some("content-block-delta") => {
                let delta = &data["delta"];
                let (kind, text) = match delta["type"].as_str() {
                    Some("text-delta") => ("text", &delta["text"]),
                    Some("reasoning-delta") => ("reasoning", &delta["reasoning"]),
                    _ => return Vec::new(),
                };
                let mut chunks = Vec::new();
                let part = (kind, id.clone());
                if !self.open.contains(&part) {
                    self.open.push(part);
                    chunks.push(json!({ "type": format!("{kind}-start"), "id": id }));
                }
                chunks.push(json!({ "type": format!("{kind}-delta"), "id": id, "delta": text }));
                chunks
            }
            Some("content-block-finish") => {
                let ended = self.open.extract_if(.., |it| it.1 == id);
                ended.map(|(kind, id)| json!({ "type": format!("{kind}-end"), "id": id })).collect()
            }
            _ => Vec::new(),
        }
    }

    fn tool(part: ToolPart) -> Value {
        match part {
            ToolPart::Start { call, name, .. } => json!({
                "type": "tool-input-start", "toolCallId": call, "toolName": name, "dynamic": true,
            }),
            ToolPart::Args { call, delta } => {
                json!({ "type": "tool-input-delta", "toolCallId": call, "inputTextDelta": delta })
            }
            ToolPart::End { call, name, input } => json!({
                "type": "tool-input-available",
                "toolCallId": call,
                "toolName": name,
                "input": input,
                "dynamic": true,
            }),
            // Clients reject results of calls that are not part of the message.
            ToolPart::Result { call, output, is_known: false, .. } => {
                json!({ "type": "data-tool-result", "id": call, "data": output })
            }
            ToolPart::Result { call, output, is_error: true, .. } => json!({
                "type": "tool-output-error",
                "toolCallId": call,
                "errorText": output.as_str().map_or_else(|| output.to_string(), str::to_owned),
                "dynamic": true,
            }),
            ToolPart::Result { call, output, .. } => json!({
                "type": "tool-output-available",
                "toolCallId": call,
                "output": output,
                "dynamic": true,
            }),
        }
    }

    /// Ends the parts that are arriving, and the step.
    fn end_step(&mut self) -> Vec<Value> {
        let ends = |(kind, id)| json!({ "type": format!("{kind}-end"), "id": id });
        let mut chunks: Vec<_> = self.open.drain(..).map(ends).collect();
        if std::mem::take(&mut self.in_step) {
            chunks.push(json!({ "type": "finish-step" }));
        }
        chunks
    }

    fn lifecycle(&mut self, data: &Value) -> Vec<Value> {
        let last = match data["event"].as_str() {
            Some("running") => {
                return vec![json!({ "type": "start", "messageId": self.message_id })];
            }
            Some("completed" | "interrupted") => json!({ "type": "finish" }),
            Some("failed") => json!({ "type": "error", "errorText": data["error"] }),
            _ => return Vec::new(),
        };
        let mut chunks = self.end_step();
        chunks.extend([last, json!(DONE)]);
        chunks
    }
}

impl UiEncoder for AiSdk {
    fn encode(&mut self, event: &ProtocolContent) -> Vec<Value> {
        let (data, is_root) = (&event.data, event.namespace.is_empty());
        match event.method {
            "lifecycle" if is_root => self.lifecycle(data),
            "messages" | "tools" => {
                let mut chunks = self.message(data);
                chunks.extend(self.tools.parts(event).into_iter().map(Self::tool));
                chunks
            }
            "input.requested" => {
                let id = &data["interrupt_id"];
                let interrupt = json!({ "id": id, "value": data["payload"] });
                vec![json!({ "type": "data-interrupt", "id": id, "data": interrupt })]
            }
            "custom" => vec![json!({ "type": "data-custom", "data": data["payload"] })],
            _ => Vec::new(),
        }
    }
}
