//! Events of the protocol.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::langgraph::stream::{encode::WireEvent, item::SEQ_STEP};

/// Returns the number of protocol event `part` of the buffered event `seq`. Numbers of later events are greater. If a
/// buffered event produces more protocol events than there are numbers, the last ones share a number.
pub(super) fn number(seq: u64, part: usize) -> u64 {
    seq + u64::try_from(part).unwrap_or(SEQ_STEP).min(SEQ_STEP - 3)
}

/// Returns the greatest number of a protocol event of the buffered event `seq`. The protocol event that ends a run has
/// this number, where `seq` is the run's last buffered event. No event has the next number.
pub(in crate::langgraph) fn last_number(seq: u64) -> u64 {
    seq + SEQ_STEP - 2
}

/// An event of the protocol.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::langgraph) struct ProtocolEvent {
    pub(super) number: u64,
    pub(super) at: SystemTime,
    pub(in crate::langgraph) content: Content,
}

/// Content of an event.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::langgraph) struct Content {
    pub(in crate::langgraph) method: &'static str,
    /// Path of the graph that sent the event: one segment `node:task` for each level of subgraphs.
    pub(in crate::langgraph) namespace: Vec<String>,
    pub(super) node: Option<String>,
    pub(in crate::langgraph) data: Value,
}

impl Content {
    pub(super) fn new(method: &'static str, namespace: &[String], data: Value) -> Self {
        Self { method, namespace: namespace.to_vec(), node: None, data }
    }

    /// Sets the node that sent the event.
    pub(super) fn of_node(mut self, node: &str) -> Self {
        self.node = Some(node.to_owned());
        self
    }

    /// Returns the channel by which clients select the event.
    pub(super) fn channel(&self) -> &'static str {
        match self.method {
            "input.requested" => "input",
            method => method,
        }
    }
}

impl ProtocolEvent {
    pub(in crate::langgraph) fn into_wire_event(self) -> WireEvent {
        let Self { number, at, content } = self;
        let timestamp = at.duration_since(UNIX_EPOCH).map_or(0, |it| it.as_millis());
        let mut params = json!({
            "namespace": content.namespace,
            "timestamp": u64::try_from(timestamp).unwrap_or(u64::MAX),
            "data": content.data,
        });
        if let Some(node) = content.node {
            params["node"] = json!(node);
        }
        let event = json!({
            "type": "event",
            "event_id": number.to_string(),
            "seq": number,
            "method": content.method,
            "params": params,
        });
        WireEvent { id: (number, 0), event: content.method.to_owned(), data: event }
    }
}
