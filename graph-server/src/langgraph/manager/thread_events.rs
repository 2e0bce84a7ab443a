//! The stream of a thread's events: the events of its runs, one run after the other.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::watch;

use super::{live_run::LiveRun, thread_feed::ThreadFeed};
use crate::langgraph::stream::{
    encode::WireEvent,
    sse::{EventId, EventSource, RunEvents},
};

/// Position of the event that reports the end of a run, after all wire events of the run's last event.
const END_POSITION: usize = 1_000_000;

/// Streams the events of a thread.
pub(in crate::langgraph) struct ThreadEvents {
    runs: watch::Receiver<Vec<Arc<LiveRun>>>,
    /// Keeps the sender of `runs` alive.
    _feed: Arc<ThreadFeed>,
    /// Last event that the client has received.
    seen: EventId,
    /// Whether only the start and the end of runs are sent.
    lifecycle_only: bool,
    current: Option<(Arc<LiveRun>, RunEvents)>,
}

impl ThreadEvents {
    /// Creates a stream that starts after the event `seen`, or with the active run if there is no such event.
    pub(in crate::langgraph) fn new(
        feed: Arc<ThreadFeed>,
        seen: Option<EventId>,
        lifecycle_only: bool,
    ) -> Self {
        let runs = feed.runs.subscribe();
        let ended = |it: &&Arc<LiveRun>| it.has_ended();
        let last_ended = runs.borrow().iter().filter(ended).map(|it| it.buffer.last_seq()).max();
        let seen = seen.unwrap_or((last_ended.unwrap_or(0), END_POSITION));
        Self { runs, _feed: feed, seen, lifecycle_only, current: None }
    }

    /// Waits for the next run with events that the client has not received.
    async fn next_run(&mut self) -> Option<Arc<LiveRun>> {
        let (seq, position) = self.seen;
        let is_new = |run: &&Arc<LiveRun>| {
            let last = run.buffer.last_seq();
            last > seq || (last == seq && position < END_POSITION) || !run.has_ended()
        };
        let mut found = None;
        let has_new = |runs: &Vec<Arc<LiveRun>>| {
            found = runs.iter().find(is_new).cloned();
            found.is_some()
        };
        let waited = self.runs.wait_for(has_new).await.is_ok();
        if waited { found } else { None }
    }
}

impl EventSource for ThreadEvents {
    async fn next(&mut self) -> Option<WireEvent> {
        loop {
            let Some((live, events)) = &mut self.current else {
                let live = self.next_run().await?;
                let events = live.events(live.selection.clone(), Some(self.seen));
                self.current = Some((live, events));
                continue;
            };
            match events.next().await {
                Some(event) if self.lifecycle_only && event.event != "metadata" => {}
                Some(event) => return Some(event),
                None => {
                    let id = (live.buffer.last_seq(), END_POSITION);
                    let data = json!({ "status": "run_done", "run_id": live.facts.run });
                    self.seen = id;
                    self.current = None;
                    return Some(WireEvent { id, event: "metadata".to_owned(), data });
                }
            }
        }
    }
}
