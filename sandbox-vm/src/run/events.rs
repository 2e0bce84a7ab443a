//! Reads the events of a running graph.

use std::{sync::Arc, time::Instant};

use graph_core::Event;
use tokio::sync::mpsc;

use crate::{
    protocol::{EVENT_WINDOW, message::GraphEvent},
    session::Credit,
};

/// The events of a running graph. Reading them grants the guest credit for more events.
#[derive(Debug)]
pub(crate) struct EventReader {
    events: mpsc::UnboundedReceiver<Box<GraphEvent>>,
    credit: Credit,
    /// Number of events read since credit was last granted to the guest.
    read_since_grant: u64,
    run: Arc<str>,
    seq: u64,
}

impl EventReader {
    pub(crate) fn new(
        events: mpsc::UnboundedReceiver<Box<GraphEvent>>,
        credit: Credit,
        run: Arc<str>,
    ) -> Self {
        Self { events, credit, read_since_grant: 0, run, seq: 0 }
    }

    /// Returns the next event, or `None` when the run has ended.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        let event = self.events.recv().await?;
        self.read_since_grant += 1;
        if self.read_since_grant >= EVENT_WINDOW as u64 / 2 {
            self.credit.grant(self.read_since_grant);
            self.read_since_grant = 0;
        }
        let GraphEvent { namespace, step, task, node, handled_task, parent_task, kind } = *event;
        let seq = self.seq;
        self.seq += 1;
        Some(Event {
            seq,
            // Use the host's time, because the guest's clock cannot be trusted.
            at: Instant::now(),
            run: self.run.clone(),
            namespace: Arc::from(namespace),
            step,
            task,
            node: node.map(Arc::from),
            handled_task,
            parent_task,
            kind,
        })
    }
}
