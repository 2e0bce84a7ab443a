//! Limits the events accepted from guests. A guest may send events without end, and the queue of unwritten events
//! must stay bounded.

use graph_core::{Event, EventKind};
use serde_json::Value;

use super::MAX_GUESTS;
use crate::config::Config;

/// Maximum length of all texts of one event, in bytes. The turns of a round are far shorter.
const MAX_EVENT_BYTES: usize = 1 << 20;

/// Maximum number of events in a trace.
const MAX_TRACE_EVENTS: usize = 20_000;

/// Remaining events that the guests of one debate may send.
#[derive(Debug)]
pub(super) struct EventQuota {
    /// Remaining debate events.
    remaining: usize,
    /// Remaining trace events.
    remaining_trace: usize,
    /// Whether the warning about excess events was logged.
    is_warned: bool,
}

impl EventQuota {
    /// Each round has four events. A replacement guest may repeat them.
    pub(super) fn new(config: &Config, is_traced: bool) -> Self {
        let rounds = usize::try_from(config.rounds).unwrap_or(usize::MAX);
        let remaining = rounds.saturating_mul(4 * MAX_GUESTS as usize);
        Self {
            remaining,
            remaining_trace: if is_traced { MAX_TRACE_EVENTS } else { 0 },
            is_warned: false,
        }
    }

    /// Returns whether the event is within the quota, and deducts it.
    pub(super) fn admit(&mut self, event: &Event) -> bool {
        let (remaining, is_short) = match &event.kind {
            EventKind::Custom(value) => (&mut self.remaining, text_bytes(value) <= MAX_EVENT_BYTES),
            // Trace events are not wanted.
            _ if self.remaining_trace == 0 => return false,
            _ => (&mut self.remaining_trace, true),
        };
        let admitted = *remaining > 0 && is_short;
        if admitted {
            *remaining -= 1;
        } else if !self.is_warned {
            self.is_warned = true;
            tracing::warn!("a guest sent more events than a debate has; dropping the excess");
        }
        admitted
    }
}

/// Returns the total length of all texts in a value, in bytes. Other scalars count as one byte.
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
        let mut quota = EventQuota::new(&config, false);
        assert!(!quota.admit(&event(json!({ "said": "x".repeat(MAX_EVENT_BYTES) }))));
        let admitted = (0..10_000).filter(|it| quota.admit(&event(json!(it)))).count();
        // Four events in each of ten rounds, for three guests.
        assert_eq!(admitted, 3 * 10 * 4);
    }
}
