//! The stream of a run's events for a user interface.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use axum::body::Bytes;
use serde_json::Value;

use crate::langgraph::stream::{
    buffer::{BufferReader, EventBuffer},
    encode::WireEvent,
    item::RunFacts,
    protocol::{ProtocolContent, RunEncoder},
    sse::EventSource,
};

/// Encodes the events of a run for a user interface.
pub(in crate::langgraph) trait UiEncoder: Send + 'static {
    /// Encodes the next event. Events that the protocol does not have are dropped. Of the messages, only those of the
    /// assistant are passed to this method.
    fn encode(&mut self, event: &ProtocolContent) -> Vec<Value>;
}

/// Ids of the messages that are arriving and whose author is not the assistant. A node can add messages of the user or
/// of the system, which a user interface would show as text of the assistant.
#[derive(Debug, Default)]
struct OtherAuthors(HashSet<String>);

impl OtherAuthors {
    /// Returns whether an event belongs to a message of another author. Must be called once for each event, in order.
    fn wrote(&mut self, event: &ProtocolContent) -> bool {
        let data = &event.data;
        if event.method != "messages" {
            return false;
        }
        let id = data["message_id"].as_str().unwrap_or_default();
        match data["event"].as_str() {
            Some("message-start") if data["role"] == "ai" => false,
            Some("message-start") => {
                self.0.insert(data["id"].as_str().unwrap_or_default().to_owned());
                true
            }
            Some("message-finish") => self.0.remove(id),
            _ => self.0.contains(id),
        }
    }
}

/// Streams the events of one run to a user interface.
pub(in crate::langgraph) struct UiEvents<E> {
    buffer: Arc<EventBuffer>,
    /// `None` after the end of the run.
    reader: Option<BufferReader>,
    run: RunEncoder,
    encoder: E,
    other_authors: OtherAuthors,
    ready: VecDeque<Value>,
}

impl<E: UiEncoder> UiEvents<E> {
    pub(in crate::langgraph) fn new(
        buffer: Arc<EventBuffer>,
        facts: Arc<RunFacts>,
        encoder: E,
    ) -> Self {
        let reader = Some(BufferReader::new(buffer.clone(), 0));
        let run = RunEncoder::new(facts);
        let other_authors = OtherAuthors::default();
        Self { buffer, reader, run, encoder, other_authors, ready: VecDeque::new() }
    }
}

impl<E: UiEncoder> EventSource for UiEvents<E> {
    async fn next(&mut self) -> Option<WireEvent> {
        loop {
            if let Some(data) = self.ready.pop_front() {
                return Some(WireEvent { id: (0, 0), event: String::new(), data });
            }
            let events = match self.reader.as_mut()?.next().await {
                Some(items) => items.iter().flat_map(|it| self.run.encode(it)).collect::<Vec<_>>(),
                None => {
                    self.reader = None;
                    self.run.end(self.buffer.last_seq())
                }
            };
            for event in events {
                if !self.other_authors.wrote(&event.content) {
                    self.ready.extend(self.encoder.encode(&event.content));
                }
            }
        }
    }

    /// Encodes an event without a name and an id. A string is not quoted: the AI SDK ends its streams with `[DONE]`.
    fn to_bytes(event: &WireEvent) -> Bytes {
        Bytes::from(match &event.data {
            Value::String(text) => format!("data: {text}\n\n"),
            data => format!("data: {data}\n\n"),
        })
    }
}
