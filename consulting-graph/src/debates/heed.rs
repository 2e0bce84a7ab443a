//! How much of what a guest tells is listened to. A guest may tell without end; what waits to be written down is bounded.

use graph_core::{Event, EventKind};
use serde_json::Value;

use super::GUESTS;
use crate::config::Config;

/// So long may the texts of one event be together, in bytes: a round's turns are far shorter.
const LONGEST: usize = 1 << 20;

/// So many events make a trace, at most.
const TRACED: usize = 20_000;

/// How much of what the guests of one debate tell is listened to.
#[derive(Debug)]
pub(super) struct Heed {
    /// So many events about the debate are still taken.
    left: usize,
    /// So many events for the trace are.
    left_of_trace: usize,
    /// Whether it was said that there were too many.
    is_warned: bool,
}

impl Heed {
    /// A round tells four things; a guest that takes the place of another may tell them again.
    pub(super) fn new(config: &Config, is_traced: bool) -> Self {
        let rounds = usize::try_from(config.rounds).unwrap_or(usize::MAX);
        let left = rounds.saturating_mul(4 * GUESTS as usize);
        Self { left, left_of_trace: if is_traced { TRACED } else { 0 }, is_warned: false }
    }

    /// Whether this event is taken.
    pub(super) fn takes(&mut self, event: &Event) -> bool {
        let (left, is_short) = match &event.kind {
            EventKind::Custom(value) => (&mut self.left, length(value) <= LONGEST),
            // Nobody asked for them.
            _ if self.left_of_trace == 0 => return false,
            _ => (&mut self.left_of_trace, true),
        };
        let takes = *left > 0 && is_short;
        if takes {
            *left -= 1;
        } else if !self.is_warned {
            self.is_warned = true;
            tracing::warn!("a guest tells more than a debate has to tell; the rest is not heard");
        }
        takes
    }
}

/// How long the texts of a value are together.
fn length(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(length).sum(),
        Value::Object(fields) => fields.iter().map(|(name, it)| name.len() + length(it)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use graph_core::{Event, EventKind};
    use serde_json::{Value, json};

    use super::{Heed, LONGEST};
    use crate::config::{Config, DEFAULT};

    fn told(value: Value) -> Event {
        Event {
            seq: 0,
            at: Instant::now(),
            run: "run".into(),
            namespace: "".into(),
            step: 0,
            task: None,
            node: None,
            handles: None,
            outer: None,
            kind: EventKind::Custom(value),
        }
    }

    #[test]
    fn a_guest_that_tells_without_end_is_not_heard_to_the_end() {
        let config = Config::parse(DEFAULT).unwrap();
        let mut heed = Heed::new(&config, false);
        assert!(!heed.takes(&told(json!({ "said": "x".repeat(LONGEST) }))));
        let heard = (0..10_000).filter(|it| heed.takes(&told(json!(it)))).count();
        // All that three guests have to tell of ten rounds.
        assert_eq!(heard, 3 * 10 * 4);
    }
}
