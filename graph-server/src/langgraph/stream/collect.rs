//! Converts the events of the engine to the events of a run: assembles messages from their pieces, and adds the state
//! to interrupts.

use std::collections::{HashMap, HashSet};

use graph_core::{
    Event, EventKind,
    stream::{Values, writes_to_json},
};
use serde_json::Value;

use super::{
    item::{Body, MessageItem, Origin},
    message,
};
use crate::langgraph::id::wire_id;

/// Collects the events of one run.
#[derive(Default)]
pub(in crate::langgraph) struct Collector {
    /// The latest state of each graph, by namespace.
    values: HashMap<String, Values>,
    /// Messages that are still arriving, by id.
    open_messages: HashMap<String, Value>,
    /// Ids of the messages that were sent.
    sent: HashSet<String>,
    /// Arguments of tool calls without a result, by the id of the call.
    calls: HashMap<String, Value>,
}

impl Collector {
    /// Converts an event of the engine to events of the run.
    pub(in crate::langgraph) fn collect(&mut self, event: Event) -> Vec<Body> {
        let mut bodies = Vec::new();
        match &event.kind {
            EventKind::Values(values) => {
                let earlier = self.values.insert(event.namespace.to_string(), values.clone());
                if earlier.is_none() {
                    self.mark_state_messages(values);
                }
            }
            EventKind::Message(value) => {
                bodies.extend(self.message(&event, value.clone()));
                return bodies;
            }
            EventKind::Update { writes, .. } => {
                if let Value::Object(fields) = writes_to_json(writes) {
                    let whole = message::messages_in(&fields);
                    bodies.extend(whole.into_iter().filter_map(|it| self.whole(&event, it)));
                }
            }
            EventKind::Interrupted(interrupts) if !interrupts.is_empty() => {
                let interrupted = Body::Interrupted {
                    namespace: event.namespace.clone(),
                    values: self.values.get(&*event.namespace).cloned(),
                    interrupts: interrupts.clone(),
                };
                bodies.push(Body::Engine(event));
                bodies.push(interrupted);
                return bodies;
            }
            _ => {}
        }
        bodies.push(Body::Engine(event));
        bodies
    }

    /// Marks the messages of the first state as sent: they belong to earlier runs or to the input.
    fn mark_state_messages(&mut self, values: &Values) {
        if let Value::Object(fields) = values.to_json() {
            for message in message::messages_in(&fields) {
                self.sent.extend(message::id(&message).map(str::to_owned));
                self.take_arguments(&message);
            }
        }
    }

    /// Returns the event for a message that a node sent.
    fn message(&mut self, event: &Event, value: Value) -> Option<Body> {
        if !message::is_message(&value) {
            return None;
        }
        if !message::is_piece(&value) {
            return self.whole(event, value);
        }
        let origin = origin(event);
        let own = message::id(&value).map(str::to_owned);
        let id = own.unwrap_or_else(|| format!("run-{}", origin.task));
        let piece = message::complete_piece(value, &id);
        let first = self.sent.insert(id.clone());
        let so_far = message::append(self.open_messages.remove(&id), &piece);
        self.open_messages.insert(id, so_far.clone());
        let so_far = Some(so_far);
        Some(Body::Message(MessageItem { origin, message: piece, so_far, first, arguments: None }))
    }

    /// Returns the event for a whole message: the message, its end if its pieces were sent, or nothing if it was sent
    /// before.
    fn whole(&mut self, event: &Event, value: Value) -> Option<Body> {
        let id = message::id(&value).map(str::to_owned);
        let first = id.as_ref().is_none_or(|id| self.sent.insert(id.clone()));
        let has_pieces = id.is_some_and(|id| self.open_messages.remove(&id).is_some());
        let message = message::complete(value);
        let arguments = self.take_arguments(&message);
        let item = MessageItem { origin: origin(event), message, so_far: None, first, arguments };
        match (first, has_pieces) {
            (true, _) => Some(Body::Message(item)),
            (false, true) => Some(Body::MessageEnd(item)),
            (false, false) => None,
        }
    }

    /// Stores the arguments of the tool calls of a message. If the message is the result of a tool, returns the
    /// arguments of its call.
    fn take_arguments(&mut self, message: &Value) -> Option<Value> {
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            if let Some(id) = call["id"].as_str() {
                self.calls.insert(id.to_owned(), call["args"].clone());
            }
        }
        self.calls.remove(message["tool_call_id"].as_str()?)
    }
}

fn origin(event: &Event) -> Origin {
    Origin {
        namespace: event.namespace.clone(),
        step: event.step,
        node: event.node.as_deref().unwrap_or_default().to_owned(),
        task: event.task.map(wire_id).unwrap_or_default(),
    }
}
