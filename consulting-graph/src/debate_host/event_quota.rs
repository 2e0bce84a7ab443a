//! Limits the events accepted from guests. Without the limit, a guest could send any number of events, and the queue of
//! events that are not yet written would grow without bound.

use graph_core::{Event, EventKind};
use serde_json::Value;

use crate::config::Config;

/// Maximum total length of the texts in one event, in bytes. The turns of a round are far shorter.
const MAX_EVENT_BYTES: usize = 1 << 20;

/// Maximum number of trace events accepted per debate.
const MAX_TRACE_EVENTS: usize = 20_000;

/// Number of events that the guests of one debate may still send.
#[derive(Debug)]
pub(super) struct EventQuota {
    remaining: usize,
    remaining_trace: usize,
    /// Whether the warning about excess events was logged.
    is_warned: bool,
}

impl EventQuota {
    /// Creates the quota of one debate. A guest sends four events per round. A guest that replaces a crashed one may
    /// send the events of all rounds again.
    pub(super) fn new(config: &Config, max_guests: u32, is_traced: bool) -> Self {
        let rounds = usize::try_from(config.rounds).unwrap_or(usize::MAX);
        let remaining = rounds.saturating_mul(4 * max_guests as usize);
        Self {
            remaining,
            remaining_trace: if is_traced { MAX_TRACE_EVENTS } else { 0 },
            is_warned: false,
        }
    }

    /// Returns whether the event is within the quota. If so, deducts it from the quota.
    pub(super) fn admit(&mut self, event: &Event) -> bool {
        let (remaining, is_short) = match &event.kind {
            EventKind::Custom(value) => (&mut self.remaining, text_bytes(value) <= MAX_EVENT_BYTES),
            // The debate is not traced, or its trace is full.
            _ if self.remaining_trace == 0 => return false,
            _ => (&mut self.remaining_trace, true),
        };
        let admitted = *remaining > 0 && is_short;
        if admitted {
            *remaining -= 1;
        } else if !self.is_warned {
            self.is_warned = true;
            tracing::warn!(
                "a guest sent more or longer events than a debate can have; dropping the excess"
            );
        }
        admitted
    }
}

/// Returns the total length of all strings and field names in a value, in bytes. Other scalars count as one byte.
fn text_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(text_bytes).sum(),
        Value::Object(fields) => fields.iter().map(|(name, it)| name.len() + text_bytes(it)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use graph_core::{Event, EventKind};
    use serde_json::{Value, json};

    use super::{EventQuota, MAX_EVENT_BYTES};
    use crate::config::{Config, DEFAULT};

    fn event(value: Value) -> Event {
        Event {
            seq: 0,
            at: Instant::now(),
            run: "run".into(),
            namespace: "".into(),
            step: 0,
            task: None,
            node: None,
            handled_task: None,
            parent_task: None,
            kind: EventKind::Custom(value),
        }
    }

    #[test]
    fn excess_guest_events_are_dropped() {
        let config = Config::parse(DEFAULT).unwrap();
        let mut quota = EventQuota::new(&config, 3, false);
        assert!(!quota.admit(&event(json!({ "texts": "x".repeat(MAX_EVENT_BYTES) }))));
        let admitted = (0..10_000).filter(|it| quota.admit(&event(json!(it)))).count();
        // Four events in each of ten rounds, for three guests.
        assert_eq!(admitted, 3 * 10 * 4);
    }
}
