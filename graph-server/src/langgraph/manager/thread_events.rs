//! The stream of a thread's events: the events of its runs, one run after the other, and the edits of its state.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::watch;

use super::{
    live_run::LiveRun,
    thread_feed::{StateUpdate, ThreadFeed},
};
use crate::langgraph::{
    records::Thread,
    stream::{
        encode::WireEvent,
        sse::{EventId, EventSource, RunEvents},
    },
    view::View,
};

/// Position in the id of the event that reports the end of a run. It is greater than the positions of all wire events
/// of the run's last event.
const END_POSITION: usize = 1_000_000;

/// The events of a thread that a client receives.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::langgraph) struct ThreadSelection {
    /// Start and end of runs.
    pub(in crate::langgraph) lifecycle: bool,
    /// Events of the runs, as selected when each run was created.
    pub(in crate::langgraph) run_events: bool,
    /// Edits of the state.
    pub(in crate::langgraph) state_updates: bool,
}

/// Streams the events of a thread.
pub(in crate::langgraph) struct ThreadEvents {
    runs: watch::Receiver<Vec<Arc<LiveRun>>>,
    updates: watch::Receiver<Vec<Arc<StateUpdate>>>,
    /// Keeps the senders alive.
    _feed: Arc<ThreadFeed>,
    /// Last event that the client has received.
    seen: EventId,
    selection: ThreadSelection,
    /// The objects that the client sees.
    view: View,
    current: Option<(Arc<LiveRun>, RunEvents)>,
}

/// Next run or edit in the stream.
enum Next {
    Run(Arc<LiveRun>),
    Update(Arc<StateUpdate>),
}

impl ThreadEvents {
    /// Creates a stream that starts after the event `seen`, or with the active run if there is no such event.
    pub(in crate::langgraph) fn new(
        feed: Arc<ThreadFeed>,
        seen: Option<EventId>,
        selection: ThreadSelection,
        view: View,
    ) -> Self {
        let (runs, updates) = (feed.runs.subscribe(), feed.updates.subscribe());
        let ended = |it: &&Arc<LiveRun>| it.has_ended();
        let last_ended = runs.borrow().iter().filter(ended).map(|it| it.buffer.last_seq()).max();
        let last_update = updates.borrow().last().map(|it| it.seq);
        let seen = seen.unwrap_or((last_ended.max(last_update).unwrap_or(0), END_POSITION));
        Self { runs, updates, _feed: feed, seen, selection, view, current: None }
    }

    /// Waits for a run or an edit with events that the client has not received.
    async fn wait(&mut self) -> Option<Next> {
        let ((seq, position), view) = (self.seen, &self.view);
        let is_new_run = |run: &&Arc<LiveRun>| {
            let last = run.buffer.last_seq();
            let is_unread = last > seq || (last == seq && position < END_POSITION);
            run.is_visible(view) && (is_unread || !run.has_ended())
        };
        let is_new_update = |it: &&Arc<StateUpdate>| {
            it.seq > seq && view.sees::<Thread>(it.owner.as_deref(), &it.metadata)
        };
        loop {
            let run = self.runs.borrow_and_update().iter().find(is_new_run).cloned();
            let update = self.updates.borrow_and_update().iter().find(is_new_update).cloned();
            match (run, update) {
                // A state cannot be edited during a run, so a run and an edit do not overlap, and the earlier of the
                // two comes first.
                (Some(run), Some(update))
                    if run.has_ended() && run.buffer.last_seq() < update.seq =>
                {
                    return Some(Next::Run(run));
                }
                (_, Some(update)) => return Some(Next::Update(update)),
                (Some(run), None) => return Some(Next::Run(run)),
                (None, None) => {}
            }
            tokio::select! {
                changed = self.runs.changed() => changed.ok()?,
                changed = self.updates.changed() => changed.ok()?,
            }
        }
    }

    fn is_selected(&self, event: &WireEvent) -> bool {
        self.selection.run_events || (self.selection.lifecycle && event.event == "metadata")
    }
}

impl EventSource for ThreadEvents {
    async fn next(&mut self) -> Option<WireEvent> {
        loop {
            let Some((live, events)) = &mut self.current else {
                match self.wait().await? {
                    Next::Run(live) => {
                        let events = live.events(live.selection.clone(), Some(self.seen));
                        self.current = Some((live, events));
                    }
                    Next::Update(update) => {
                        let id = (update.seq, 0);
                        self.seen = id;
                        if self.selection.state_updates {
                            let data = json!({ "state": update.state });
                            return Some(WireEvent { id, event: "state_update".to_owned(), data });
                        }
                    }
                }
                continue;
            };
            let event = match events.next().await {
                Some(event) => event,
                // The run continues on another replica or later. The client connects again.
                None if !live.has_ended() => return None,
                None => {
                    let id = (live.buffer.last_seq(), END_POSITION);
                    let data = json!({ "status": "run_done", "run_id": live.facts.run });
                    self.seen = id;
                    self.current = None;
                    WireEvent { id, event: "metadata".to_owned(), data }
                }
            };
            if self.is_selected(&event) {
                return Some(event);
            }
        }
    }
}
