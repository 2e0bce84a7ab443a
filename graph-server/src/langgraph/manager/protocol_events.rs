//! The events of a thread in the event protocol.

use std::{collections::VecDeque, sync::Arc};

use axum::body::Bytes;
use tokio::sync::watch;

use super::{live_run::LiveRun, thread_feed::ThreadFeed};
use crate::langgraph::{
    stream::{
        buffer::BufferReader,
        encode::WireEvent,
        protocol::{Filter, ProtocolEvent, RunEncoder},
        sse::EventSource,
    },
    view::View,
};

/// Streams the buffered and future events of a thread that match a filter.
pub(in crate::langgraph) struct ProtocolEvents {
    runs: watch::Receiver<Vec<Arc<LiveRun>>>,
    /// Keeps the sender of `runs` alive.
    _feed: Arc<ThreadFeed>,
    filter: Filter,
    /// The runs that the client sees.
    view: View,
    current: Option<Current>,
    /// Number of the last event of the latest run that was read to its end.
    seen: u64,
    ready: VecDeque<ProtocolEvent>,
}

/// The run that is being read.
struct Current {
    run: Arc<LiveRun>,
    reader: BufferReader,
    encoder: RunEncoder,
}

impl ProtocolEvents {
    pub(in crate::langgraph) fn new(feed: Arc<ThreadFeed>, filter: Filter, view: View) -> Self {
        let runs = feed.runs.subscribe();
        Self { runs, _feed: feed, filter, view, current: None, seen: 0, ready: VecDeque::new() }
    }

    /// Waits for a run that was not read yet.
    async fn next_run(&mut self) -> Option<Current> {
        let (seen, view) = (self.seen, &self.view);
        let is_unread = |it: &&Arc<LiveRun>| {
            it.is_visible(view) && (it.buffer.last_seq() > seen || !it.has_ended())
        };
        let mut found = None;
        let has_unread = |runs: &Vec<Arc<LiveRun>>| {
            found = runs.iter().find(is_unread).cloned();
            found.is_some()
        };
        self.runs.wait_for(has_unread).await.ok()?;
        let run = found?;
        let reader = BufferReader::new(run.buffer.clone(), 0);
        let encoder = RunEncoder::new(run.facts.clone());
        Some(Current { run, reader, encoder })
    }
}

impl EventSource for ProtocolEvents {
    async fn next(&mut self) -> Option<WireEvent> {
        loop {
            while let Some(event) = self.ready.pop_front() {
                if self.filter.matches(&event) {
                    return Some(event.into_wire_event());
                }
            }
            if self.current.is_none() {
                self.current = Some(self.next_run().await?);
            }
            let Some(current) = &mut self.current else { continue };
            match current.reader.next().await {
                Some(items) => {
                    items.iter().for_each(|it| self.ready.extend(current.encoder.encode(it)));
                }
                None => {
                    // If there is no output, the server is shutting down, and the run continues later.
                    current.run.output().await?;
                    self.seen = current.run.buffer.last_seq();
                    self.ready.extend(current.encoder.end(self.seen));
                    self.current = None;
                }
            }
        }
    }

    fn to_bytes(event: &WireEvent) -> Bytes {
        let WireEvent { id: (number, _), event, data } = event;
        Bytes::from(format!("event: {event}\r\ndata: {data}\r\nid: {number}\r\n\r\n"))
    }
}
