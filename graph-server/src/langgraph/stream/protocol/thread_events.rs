//! The events of a thread, one run after the other.

use std::{collections::VecDeque, sync::Arc};

use axum::body::Bytes;
use tokio::sync::watch;

use super::{event::ProtocolEvent, filter::Filter, run_encoder::RunEncoder};
use crate::langgraph::{
    manager::{LiveRun, ThreadFeed},
    stream::{buffer::BufferReader, sse::EventSource},
};

/// Streams the buffered and future events of a thread. It ends only when the thread is deleted.
pub(in crate::langgraph) struct ThreadEvents {
    runs: watch::Receiver<Vec<Arc<LiveRun>>>,
    filter: Filter,
    current: Option<Current>,
    /// Number of the last buffered event of the runs that were read to their end.
    seen: u64,
    ready: VecDeque<ProtocolEvent>,
}

/// The run that is being read.
struct Current {
    run: Arc<LiveRun>,
    reader: BufferReader,
    encoder: RunEncoder,
}

impl ThreadEvents {
    pub(in crate::langgraph) fn new(feed: &ThreadFeed, filter: Filter) -> Self {
        let runs = feed.runs.subscribe();
        Self { runs, filter, current: None, seen: 0, ready: VecDeque::new() }
    }

    /// Waits for a run that was not read yet. Returns `None` if the thread was deleted.
    async fn next_run(&mut self) -> Option<Current> {
        let seen = self.seen;
        let unread = |it: &&Arc<LiveRun>| {
            let last = it.buffer.last_seq();
            last == 0 || last > seen
        };
        loop {
            let run = self.runs.borrow_and_update().iter().find(unread).cloned();
            if let Some(run) = run {
                let reader = BufferReader::new(run.buffer.clone(), 0);
                let encoder = RunEncoder::new(run.facts.clone());
                return Some(Current { run, reader, encoder });
            }
            self.runs.changed().await.ok()?;
        }
    }
}

impl EventSource for ThreadEvents {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            while let Some(event) = self.ready.pop_front() {
                if self.filter.matches(&event) {
                    return Some(event.to_bytes());
                }
            }
            if self.current.is_none() {
                self.current = Some(self.next_run().await?);
            }
            // A cancelled call keeps its place, because `current` is replaced only after the run was read to its end.
            let Some(current) = &mut self.current else { continue };
            match current.reader.next().await {
                Some(items) => {
                    items.iter().for_each(|it| self.ready.extend(current.encoder.encode(it)));
                }
                None => {
                    let result = current.run.result().await;
                    self.seen = current.run.buffer.last_seq();
                    self.ready.extend(current.encoder.end(self.seen, result.map(|it| it.status)));
                    self.current = None;
                }
            }
        }
    }
}
