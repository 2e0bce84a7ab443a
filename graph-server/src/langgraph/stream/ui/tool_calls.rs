//! The tool calls of a run, as user interfaces show them.

use std::collections::HashMap;

use serde_json::Value;

use crate::langgraph::stream::protocol::ProtocolContent;

/// A part of a tool call.
#[derive(Debug)]
pub(super) enum ToolPart {
    Start {
        call: String,
        name: String,
        message: Option<String>,
    },
    /// The next part of the arguments, as JSON text.
    Args {
        call: String,
        delta: String,
    },
    /// The arguments are complete.
    End {
        call: String,
        name: String,
        input: Value,
    },
    /// The result of the tool. `is_known` states whether the call was made in this run.
    Result {
        call: String,
        output: Value,
        is_error: bool,
        is_known: bool,
    },
}

/// Tracks which tool calls were reported. A model can send a call in pieces, whole, or first in pieces and then whole.
#[derive(Debug, Default)]
pub(super) struct ToolCalls(HashMap<String, Progress>);

#[derive(Debug)]
enum Progress {
    /// The call is arriving. This number of bytes of its arguments was reported.
    Open(usize),
    Ended,
}

impl ToolCalls {
    /// Returns the parts of tool calls in an event of the channel `messages` or `tools`.
    pub(super) fn parts(&mut self, event: &ProtocolContent) -> Vec<ToolPart> {
        let data = &event.data;
        match (event.method, data["event"].as_str()) {
            ("messages", Some("content-block-start")) => self.start(data, &data["content"]),
            ("messages", Some("content-block-delta")) => self.piece(data, &data["delta"]["fields"]),
            ("messages", Some("content-block-finish")) => self.finish(data, &data["content"]),
            ("tools", Some("tool-started")) => {
                let call = text(&data["tool_call_id"]);
                self.whole(call, &data["tool_name"], &data["input"], None)
            }
            ("tools", Some("tool-finished")) => self.result(data, data["output"].clone(), false),
            ("tools", Some("tool-error")) => self.result(data, data["message"].clone(), true),
            _ => Vec::new(),
        }
    }

    fn start(&mut self, data: &Value, block: &Value) -> Vec<ToolPart> {
        let (call, message) = (call_id(data, block), Some(text(&data["message_id"])));
        match block["type"].as_str() {
            Some("tool_call") => self.whole(call, &block["name"], &block["args"], message),
            Some("tool_call_chunk") if !self.0.contains_key(&call) => {
                self.0.insert(call.clone(), Progress::Open(0));
                vec![ToolPart::Start { call, name: text(&block["name"]), message }]
            }
            _ => Vec::new(),
        }
    }

    /// Returns all parts of a call that was not reported yet.
    fn whole(
        &mut self,
        call: String,
        name: &Value,
        input: &Value,
        message: Option<String>,
    ) -> Vec<ToolPart> {
        if self.0.contains_key(&call) {
            return Vec::new();
        }
        self.0.insert(call.clone(), Progress::Ended);
        let name = text(name);
        vec![
            ToolPart::Start { call: call.clone(), name: name.clone(), message },
            ToolPart::Args { call: call.clone(), delta: input.to_string() },
            ToolPart::End { call, name, input: input.clone() },
        ]
    }

    /// Returns the arguments that were not reported yet. `block` contains all arguments so far.
    fn piece(&mut self, data: &Value, block: &Value) -> Vec<ToolPart> {
        let call = call_id(data, block);
        let args = block["args"].as_str().unwrap_or_default();
        match self.0.get_mut(&call) {
            Some(Progress::Open(sent)) if *sent < args.len() => {
                let delta = args.get(*sent..).unwrap_or_default().to_owned();
                *sent = args.len();
                vec![ToolPart::Args { call, delta }]
            }
            _ => Vec::new(),
        }
    }

    /// Returns the end of a call that was reported in pieces.
    fn finish(&mut self, data: &Value, block: &Value) -> Vec<ToolPart> {
        let call = call_id(data, block);
        match self.0.get_mut(&call) {
            Some(progress @ Progress::Open(_)) => {
                *progress = Progress::Ended;
                let (name, input) = (text(&block["name"]), block["args"].clone());
                vec![ToolPart::End { call, name, input }]
            }
            _ => Vec::new(),
        }
    }

    fn result(&self, data: &Value, output: Value, is_error: bool) -> Vec<ToolPart> {
        let call = text(&data["tool_call_id"]);
        let is_known = self.0.contains_key(&call);
        vec![ToolPart::Result { call, output, is_error, is_known }]
    }
}

/// Returns the id of the tool call in a block. A call without an id gets one from its position.
fn call_id(data: &Value, block: &Value) -> String {
    match block["id"].as_str() {
        Some(id) => id.to_owned(),
        None => format!("{}-{}", text(&data["message_id"]), data["index"]),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
