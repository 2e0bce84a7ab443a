//! The events of a thread, over all its runs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::Value;
use tokio::sync::watch;
use uuid::Uuid;

use super::live_run::LiveRun;
use crate::langgraph::{request::config::Metadata, stream::item::SEQ_STEP};

/// The runs of a thread whose events can be read. Runs of a thread do not overlap, so the events of the thread are the
/// events of its runs, one run after the other.
#[derive(Debug)]
pub(in crate::langgraph) struct ThreadFeed {
    /// Number of the thread's latest event.
    pub(super) counter: Arc<AtomicU64>,
    /// Recent runs, in the order in which they were started.
    pub(in crate::langgraph) runs: watch::Sender<Vec<Arc<LiveRun>>>,
    /// Recent edits of the state, oldest first.
    pub(super) updates: watch::Sender<Vec<Arc<StateUpdate>>>,
    /// Whether the feed contains the stored runs: those of other replicas, and those from before a restart.
    pub(super) is_loaded: AtomicBool,
    /// Locked while the stored runs are read.
    pub(super) loading: tokio::sync::Mutex<()>,
}

/// An edit of a thread's state.
#[derive(Debug)]
pub(super) struct StateUpdate {
    /// Number of the event.
    pub(super) seq: u64,
    /// The state after the edit.
    pub(super) state: Value,
    /// Owner of the thread.
    pub(super) owner: Option<String>,
    /// Metadata of the thread.
    pub(super) metadata: Metadata,
}

/// Maximum number of ended runs whose events a thread keeps.
const MAX_RUNS: usize = 16;
/// Maximum number of edits that a thread keeps.
const MAX_UPDATES: usize = 16;

impl ThreadFeed {
    /// Creates an empty feed. Its event numbers start at the current time in microseconds, so that they are greater
    /// than those of an earlier process, and a client can resume its stream after a restart.
    pub(super) fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let first = u64::try_from(now.as_micros()).unwrap_or_default();
        Self {
            counter: Arc::new(AtomicU64::new(first)),
            runs: watch::Sender::new(Vec::new()),
            updates: watch::Sender::new(Vec::new()),
            is_loaded: AtomicBool::new(false),
            loading: tokio::sync::Mutex::default(),
        }
    }

    /// Returns whether a client reads the events.
    pub(super) fn has_readers(&self) -> bool {
        self.runs.receiver_count() > 0
    }

    /// Returns the number of the thread's last event.
    pub(in crate::langgraph) fn last_seq(&self) -> u64 {
        self.counter.load(Ordering::Relaxed)
    }

    /// Returns whether all events of a run and of the later runs after the event with this number are kept.
    pub(in crate::langgraph) fn has_events_after(&self, run: Uuid, number: u64) -> bool {
        let runs = self.runs.borrow();
        let mut following = runs.iter().skip_while(|it| it.facts.run != run).peekable();
        following.peek().is_some() && following.all(|it| it.has_events_after(number))
    }

    /// Adds runs that were started earlier, in the order of their events. Drops the oldest runs if there are too many.
    pub(super) fn add_earlier(&self, mut earlier: Vec<Arc<LiveRun>>) {
        self.runs.send_modify(|runs| {
            earlier.retain(|it| !runs.iter().any(|run| run.facts.run == it.facts.run));
            runs.append(&mut earlier);
            runs.sort_by_key(|it| it.buffer.first().map_or(u64::MAX, |it| it.seq));
            runs.drain(..runs.len().saturating_sub(MAX_RUNS));
        });
    }

    /// Adds a run that is about to start.
    pub(super) fn add(&self, run: Arc<LiveRun>) {
        self.runs.send_modify(|runs| {
            if runs.iter().any(|it| it.facts.run == run.facts.run) {
                return;
            }
            runs.push(run);
            if runs.len() > MAX_RUNS {
                runs.remove(0);
            }
        });
    }

    /// Adds an edit of the state.
    pub(super) fn add_update(&self, state: Value, owner: Option<String>, metadata: Metadata) {
        let seq = self.counter.fetch_add(SEQ_STEP, Ordering::Relaxed) + SEQ_STEP;
        self.updates.send_modify(|updates| {
            updates.push(Arc::new(StateUpdate { seq, state, owner, metadata }));
            if updates.len() > MAX_UPDATES {
                updates.remove(0);
            }
        });
    }

    /// Removes the ended runs and the edits, because the thread was deleted.
    pub(super) fn forget_ended(&self) {
        self.runs.send_modify(|runs| runs.retain(|it| !it.has_ended()));
        self.updates.send_modify(Vec::clear);
        self.is_loaded.store(false, Ordering::Release);
    }

    /// Removes a run whose events are no longer kept.
    pub(super) fn remove(&self, run: &LiveRun) {
        self.runs.send_modify(|runs| runs.retain(|it| !std::ptr::eq(&**it, run)));
    }

    /// Removes a run whose claim this process has lost. The feed must be loaded again to contain its continuation.
    pub(super) fn remove_lost(&self, run: &LiveRun) {
        self.remove(run);
        self.is_loaded.store(false, Ordering::Release);
    }
}
