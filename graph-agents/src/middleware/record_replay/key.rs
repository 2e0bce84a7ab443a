//! Keys of calls: hashes that are equal if the requests are equal.

use std::collections::HashMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    message::Message,
    model::{ModelTool, Prompt},
    tool::ToolRequest,
};

/// Returns the key of a model call.
pub(super) fn of_prompt(prompt: &Prompt) -> String {
    hash(&json!({
        "system": prompt.system,
        "messages": CallNumbers::default().without_ids(&prompt.messages),
        "tools": prompt.tools.iter().map(definition).collect::<Vec<_>>(),
        "tool_choice": prompt.tool_choice,
        "output": prompt.output,
        "settings": prompt.settings,
    }))
}

/// Returns the key of a tool call. It depends on the conversation and the number of the call, so equal calls have
/// different keys.
pub(super) fn of_tool_call(request: &ToolRequest) -> String {
    let mut numbers = CallNumbers::default();
    let messages = numbers.without_ids(request.state.messages());
    hash(&json!({
        "tool": request.call.name,
        "args": request.call.args,
        "call": numbers.number(request.call.id().to_owned()),
        "messages": messages,
    }))
}

fn hash(request: &Value) -> String {
    hex::encode(Sha256::digest(request.to_string()))
}

fn definition(tool: &ModelTool) -> Value {
    match tool {
        ModelTool::Function { name, description, parameters, strict } => json!({
            "name": name,
            "description": description,
            "parameters": **parameters,
            "strict": strict,
        }),
        ModelTool::Provider(tool) => json!(tool),
    }
}

/// Numbers that replace the ids of tool calls, because some of these ids differ in each run.
#[derive(Default)]
struct CallNumbers(HashMap<String, usize>);

impl CallNumbers {
    /// Returns the number of a call. Calls are numbered in the order in which they are passed.
    fn number(&mut self, id: String) -> String {
        let next = self.0.len();
        self.0.entry(id).or_insert(next).to_string()
    }

    /// Returns the messages without their ids, and with numbers as the ids of tool calls.
    fn without_ids(&mut self, messages: &[Message]) -> Vec<Message> {
        let mut messages = messages.to_vec();
        for message in &mut messages {
            match message {
                Message::Human(it) | Message::System(it) => it.id = None,
                Message::Ai(it) => {
                    it.id = None;
                    let valid = it.tool_calls.iter_mut().map(|it| &mut it.id);
                    let invalid = it.invalid_tool_calls.iter_mut().map(|it| &mut it.id);
                    for id in valid.chain(invalid) {
                        *id = id.take().map(|it| self.number(it));
                    }
                }
                Message::Tool(it) => {
                    it.id = None;
                    it.tool_call_id = self.number(std::mem::take(&mut it.tool_call_id));
                }
                Message::Remove { .. } => {}
            }
        }
        messages
    }
}
