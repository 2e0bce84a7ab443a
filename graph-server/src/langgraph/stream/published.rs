//! The events of a run that an earlier execution has published, for executions that repeat all events.

use super::{buffer::EventBuffer, item::Body};

/// The end of the events that were published.
#[derive(Debug, Default)]
pub(in crate::langgraph) struct Published {
    /// Number of the last event of the engine that was published unchanged.
    last_seq: Option<u64>,
    /// Number of items that were published after it.
    after: usize,
    /// Whether the last event was skipped.
    is_past_last: bool,
}

impl Published {
    /// Returns whether an item of the event with the number `seq` was published. Must be called once for each item, in
    /// order.
    pub(in crate::langgraph) fn skip(&mut self, seq: u64, body: &Body) -> bool {
        if let Some(last) = self.last_seq
            && !self.is_past_last
        {
            self.is_past_last = seq == last && matches!(body, Body::Engine(_)) || seq > last;
            if seq <= last {
                return true;
            }
        }
        let skips = self.after > 0;
        self.after = self.after.saturating_sub(1);
        skips
    }
}

impl EventBuffer {
    /// Returns the end of the events that were published so far.
    pub(in crate::langgraph) fn published(&self) -> Published {
        let mut published = Published::default();
        self.for_each(|body| match body {
            Body::Engine(event) => {
                published = Published { last_seq: Some(event.seq), ..Published::default() };
            }
            Body::Interrupted { .. } | Body::Message(_) | Body::MessageEnd(_) => {
                published.after += 1;
            }
            Body::Started(_) | Body::Finished(_) | Body::Failed(_) => {}
        });
        published
    }
}
