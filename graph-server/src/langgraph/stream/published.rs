//! Skips the events of a run that an earlier execution has already published, when a later execution repeats all
//! events.

use super::{buffer::EventBuffer, item::Body};

/// Position up to which the events of a run were published.
#[derive(Debug, Default)]
pub(in crate::langgraph) struct Published {
    /// Sequence number of the last event of the engine that was published unchanged.
    last_seq: Option<u64>,
    /// Number of items that were published after it.
    after: usize,
    /// Whether the event `last_seq` was skipped.
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
    /// Returns the position up to which the events were published.
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

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Instant};

    use graph_core::{Event, EventKind, Interrupt};
    use serde_json::json;

    use super::*;
    use crate::langgraph::stream::collect::Collector;

    /// Returns the items of a run, each with the sequence number of its event.
    fn items() -> Vec<(u64, Body)> {
        let piece = |text: &str| {
            EventKind::Message(json!({ "type": "AIMessageChunk", "id": "m", "content": text }))
        };
        let question =
            Interrupt { id: "i".to_owned(), value: json!("Go on?"), namespace: String::new() };
        let kinds = [
            piece("On"),
            EventKind::Custom(json!(1)),
            piece(" "),
            piece("tea"),
            EventKind::Custom(json!(2)),
            EventKind::Interrupted(vec![question]),
            piece("."),
        ];
        let mut collector = Collector::default();
        let event = |(seq, kind): (u64, EventKind)| Event {
            seq,
            at: Instant::now(),
            run: Arc::from("r"),
            namespace: Arc::from(""),
            step: 1,
            task: None,
            node: None,
            handled_task: None,
            parent_task: None,
            kind,
        };
        let numbered = (0..).zip(kinds).map(event);
        numbered
            .flat_map(|it| {
                let seq = it.seq;
                collector.collect(it).into_iter().map(move |body| (seq, body))
            })
            .collect()
    }

    fn label((seq, body): &(u64, Body)) -> String {
        format!("{seq} {:?}", std::mem::discriminant(body))
    }

    #[test]
    fn exactly_the_published_items_are_skipped() {
        let all: Vec<_> = items().iter().map(label).collect();
        assert_eq!(all.len(), 8, "the interrupt has two items");
        for n_published in 0..=all.len() {
            let buffer = EventBuffer::new(Arc::default());
            buffer.push(Body::Started(None));
            items().into_iter().take(n_published).for_each(|(_, body)| buffer.push(body));
            let mut published = buffer.published();
            let mut repeated = items();
            repeated.retain(|(seq, body)| !published.skip(*seq, body));
            let repeated: Vec<_> = repeated.iter().map(label).collect();
            assert_eq!(repeated, all[n_published..], "after {n_published} items");
        }
    }
}
