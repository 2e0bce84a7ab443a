//! Events of AG-UI 1.0.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    ag_ui_messages::to_ag_ui,
    events::UiEncoder,
    tool_calls::{ToolCalls, ToolPart},
};
use crate::langgraph::stream::protocol::ProtocolContent;

/// Encodes the events of a run for AG-UI.
#[derive(Debug)]
pub(in crate::langgraph) struct AgUi {
    thread_id: String,
    run_id: String,
    has_started: bool,
    /// Number of running tasks of each step. A step is active while at least one of its tasks runs.
    steps: BTreeMap<String, usize>,
    /// Messages whose text is arriving.
    open_texts: Vec<String>,
    /// Messages whose reasoning is arriving.
    open_reasoning: Vec<String>,
    tools: ToolCalls,
    /// Tool calls whose arguments are arriving.
    open_calls: Vec<String>,
    /// The messages of the latest state.
    messages: Option<Value>,
    interrupts: Vec<Value>,
}

impl AgUi {
    /// Creates an encoder. The events contain the ids that the client has chosen.
    pub(in crate::langgraph) fn new(thread_id: String, run_id: String) -> Self {
        Self {
            thread_id,
            run_id,
            has_started: false,
            steps: BTreeMap::new(),
            open_texts: Vec::new(),
            open_reasoning: Vec::new(),
            tools: ToolCalls::default(),
            open_calls: Vec::new(),
            messages: None,
            interrupts: Vec::new(),
        }
    }

    fn of_run(&self, kind: &str) -> Value {
        json!({ "type": kind, "threadId": self.thread_id, "runId": self.run_id })
    }

    /// Reports the start of the run, unless it was reported. A run that is cancelled while it is pending never starts,
    /// but every stream must begin with this event.
    fn start(&mut self) -> Vec<Value> {
        if std::mem::replace(&mut self.has_started, true) {
            return Vec::new();
        }
        let mut started = self.of_run("RUN_STARTED");
        started["protocolVersion"] = json!("1.0");
        vec![started]
    }

    fn step(&mut self, data: &Value) -> Vec<Value> {
        let name = data["name"].as_str().unwrap_or_default();
        let n_running = self.steps.entry(name.to_owned()).or_default();
        // Only the event at the start of a task contains the input.
        let starts = data.get("input").is_some();
        let (kind, boundary) = if starts { ("STEP_STARTED", 1) } else { ("STEP_FINISHED", 0) };
        *n_running = if starts { *n_running + 1 } else { n_running.saturating_sub(1) };
        match *n_running == boundary {
            true => vec![json!({ "type": kind, "stepName": name })],
            false => Vec::new(),
        }
    }

    fn message(&mut self, data: &Value) -> Vec<Value> {
        let Some(id) = data["message_id"].as_str() else { return Vec::new() };
        let delta = &data["delta"];
        match (data["event"].as_str(), delta["type"].as_str()) {
            (Some("content-block-delta"), Some("text-delta")) => self.text(id, &delta["text"]),
            (Some("content-block-delta"), Some("reasoning-delta")) => {
                self.reasoning(id, &delta["reasoning"])
            }
            (Some("message-finish"), _) => self.end_message(id),
            _ => Vec::new(),
        }
    }

    fn text(&mut self, id: &str, delta: &Value) -> Vec<Value> {
        let mut events = self.end_reasoning(id);
        if !self.open_texts.iter().any(|it| it == id) {
            self.open_texts.push(id.to_owned());
            events.push(
                json!({ "type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant" }),
            );
        }
        events.push(json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta }));
        events
    }

    /// Reasoning is a separate message, whose id must differ from that of the answer.
    fn reasoning(&mut self, id: &str, delta: &Value) -> Vec<Value> {
        let own = reasoning_id(id);
        let mut events = Vec::new();
        if !self.open_reasoning.iter().any(|it| it == id) {
            self.open_reasoning.push(id.to_owned());
            events.push(json!({ "type": "REASONING_START", "messageId": own }));
            events.push(json!({
                "type": "REASONING_MESSAGE_START",
                "messageId": own,
                "role": "reasoning",
            }));
        }
        events
            .push(json!({ "type": "REASONING_MESSAGE_CONTENT", "messageId": own, "delta": delta }));
        events
    }

    fn end_reasoning(&mut self, id: &str) -> Vec<Value> {
        let Some(position) = self.open_reasoning.iter().position(|it| it == id) else {
            return Vec::new();
        };
        let own = reasoning_id(&self.open_reasoning.remove(position));
        vec![
            json!({ "type": "REASONING_MESSAGE_END", "messageId": own }),
            json!({ "type": "REASONING_END", "messageId": own }),
        ]
    }

    fn end_message(&mut self, id: &str) -> Vec<Value> {
        let mut events = self.end_reasoning(id);
        if let Some(position) = self.open_texts.iter().position(|it| it == id) {
            self.open_texts.remove(position);
            events.push(json!({ "type": "TEXT_MESSAGE_END", "messageId": id }));
        }
        events
    }

    fn tool(&mut self, part: ToolPart) -> Value {
        match part {
            ToolPart::Start { call, name, message } => {
                self.open_calls.push(call.clone());
                let mut start = json!({
                    "type": "TOOL_CALL_START",
                    "toolCallId": call,
                    "toolCallName": name,
                });
                if let Some(message) = message {
                    start["parentMessageId"] = json!(message);
                }
                start
            }
            ToolPart::Args { call, delta } => {
                json!({ "type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": delta })
            }
            ToolPart::End { call, .. } => {
                self.open_calls.retain(|it| *it != call);
                json!({ "type": "TOOL_CALL_END", "toolCallId": call })
            }
            ToolPart::Result { call, output, .. } => json!({
                "type": "TOOL_CALL_RESULT",
                "messageId": format!("result-{call}"),
                "toolCallId": call,
                "content": output.as_str().map_or_else(|| output.to_string(), str::to_owned),
                "role": "tool",
            }),
        }
    }

    fn state(&mut self, values: &Value) -> Vec<Value> {
        let Value::Object(mut fields) = values.clone() else { return Vec::new() };
        self.messages = fields.remove("messages");
        vec![json!({ "type": "STATE_SNAPSHOT", "snapshot": fields })]
    }

    fn interrupt(&mut self, data: &Value) {
        let value = &data["payload"];
        let mut interrupt = json!({
            "id": data["interrupt_id"],
            "reason": "interrupt",
            "metadata": { "value": value },
        });
        if let Some(message) = value.as_str() {
            interrupt["message"] = json!(message);
        }
        self.interrupts.push(interrupt);
    }

    /// Ends everything that is still open.
    fn close(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        for id in self.open_texts.clone().iter().chain(&self.open_reasoning.clone()) {
            events.extend(self.end_message(id));
        }
        for call in self.open_calls.drain(..) {
            events.push(json!({ "type": "TOOL_CALL_END", "toolCallId": call }));
        }
        let steps = std::mem::take(&mut self.steps).into_iter().filter(|it| it.1 > 0);
        events.extend(steps.map(|it| json!({ "type": "STEP_FINISHED", "stepName": it.0 })));
        events
    }

    fn lifecycle(&mut self, data: &Value) -> Vec<Value> {
        let outcome = match data["event"].as_str() {
            Some("running") => return self.start(),
            Some("completed") => json!({ "type": "success" }),
            Some("interrupted") if self.interrupts.is_empty() => json!({ "type": "cancelled" }),
            Some("interrupted") => json!({ "type": "interrupt", "interrupts": self.interrupts }),
            Some("failed") => {
                let mut events = self.start();
                events.extend(self.close());
                events.push(json!({ "type": "RUN_ERROR", "message": data["error"] }));
                return events;
            }
            _ => return Vec::new(),
        };
        let mut events = self.start();
        events.extend(self.close());
        if let Some(messages) = &self.messages {
            // The ids of the stored messages can differ from those that were streamed.
            events.push(json!({ "type": "MESSAGES_SNAPSHOT", "messages": to_ag_ui(messages) }));
        }
        let mut finished = self.of_run("RUN_FINISHED");
        finished["outcome"] = outcome;
        events.push(finished);
        events
    }
}

impl UiEncoder for AgUi {
    fn encode(&mut self, event: &ProtocolContent) -> Vec<Value> {
        let (data, is_root) = (&event.data, event.namespace.is_empty());
        match event.method {
            "lifecycle" if is_root => self.lifecycle(data),
            "messages" | "tools" => {
                let mut events = self.message(data);
                let parts = self.tools.parts(event);
                events.extend(parts.into_iter().map(|it| self.tool(it)));
                events
            }
            "tasks" if is_root => self.step(data),
            "values" if is_root => self.state(data),
            "input.requested" => {
                self.interrupt(data);
                Vec::new()
            }
            "custom" => {
                vec![json!({ "type": "CUSTOM", "name": "custom", "value": data["payload"] })]
            }
            _ => Vec::new(),
        }
    }
}

fn reasoning_id(message: &str) -> String {
    format!("{message}-reasoning")
}
