//! The runs whose events this process has in memory.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use serde_json::Value;
use uuid::Uuid;

use super::{live_run::LiveRun, thread_feed::ThreadFeed};
use crate::langgraph::{records::Run, request::config::Metadata};

/// Maximum number of ended runs whose events are kept in memory.
const MAX_ENDED: usize = 1000;
/// Maximum number of events of ended runs that are kept in memory.
const MAX_ENDED_EVENTS: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct LiveRuns {
    /// Active runs, and runs that ended recently.
    pub(super) live: HashMap<Uuid, Arc<LiveRun>>,
    feeds: HashMap<Uuid, Arc<ThreadFeed>>,
    /// Ended runs, oldest first.
    ended: VecDeque<Arc<LiveRun>>,
    /// Number of buffered events of all ended runs.
    n_ended_events: usize,
}

impl LiveRuns {
    /// Adds a run, unless it is already there.
    pub(super) fn add(&mut self, run: &Run, owner: Option<String>) -> Arc<LiveRun> {
        let counter = self.feed(run.thread_id).counter.clone();
        let new = || Arc::new(LiveRun::new(run, owner, counter));
        self.live.entry(run.run_id).or_insert_with(new).clone()
    }

    /// Returns a `LiveRun` for a run that has ended, without adding it to the map. A request that finds a run in the
    /// map waits for its output, and would wait forever if the output was not yet read from the storage.
    pub(super) fn unlisted(&self, run: &Run, owner: Option<String>) -> Arc<LiveRun> {
        let feed = self.existing_feed(run.thread_id);
        let counter = feed.map(|it| it.counter.clone()).unwrap_or_default();
        Arc::new(LiveRun::new(run, owner, counter))
    }

    /// Returns the runs that have not ended.
    pub(super) fn active(&self) -> Vec<Arc<LiveRun>> {
        self.live.values().filter(|it| !it.has_ended()).cloned().collect()
    }

    /// Returns the event feed of a thread, and creates it if necessary.
    pub(super) fn feed(&mut self, thread: Uuid) -> Arc<ThreadFeed> {
        self.feeds.entry(thread).or_insert_with(|| Arc::new(ThreadFeed::new())).clone()
    }

    /// Returns the event feed of a thread if there is one.
    pub(super) fn existing_feed(&self, thread: Uuid) -> Option<Arc<ThreadFeed>> {
        self.feeds.get(&thread).cloned()
    }

    /// Drops the event feed of a thread unless it is in use or a run of the thread is in memory.
    pub(super) fn release_feed(&mut self, thread: Uuid) {
        let is_unused = self.feeds.get(&thread).is_some_and(|it| Arc::strong_count(it) == 1);
        if is_unused && !self.live.values().any(|it| it.facts.thread == thread) {
            self.feeds.remove(&thread);
        }
    }

    /// Sends an edited state to the readers of a thread.
    pub(super) fn add_state(
        &self,
        thread: Uuid,
        state: Value,
        owner: Option<String>,
        metadata: Metadata,
    ) {
        if let Some(feed) = self.feeds.get(&thread).filter(|it| it.has_readers()) {
            feed.add_update(state, owner, metadata);
        }
    }

    /// Returns the feeds with their threads.
    pub(super) fn feeds(&self) -> Vec<(Uuid, Arc<ThreadFeed>)> {
        self.feeds.iter().map(|(thread, feed)| (*thread, feed.clone())).collect()
    }

    /// Removes a run, and the event feed of its thread if it is no longer used. Readers of the run keep its events.
    pub(super) fn remove(&mut self, run: Uuid) {
        if let Some(removed) = self.live.remove(&run) {
            self.release_feed(removed.facts.thread);
        }
    }

    /// Removes a run that this process does not execute, unless it is in use.
    pub(super) fn remove_unused(&mut self, run: Uuid) {
        let is_unused = |it: &Arc<LiveRun>| Arc::strong_count(it) == 1 && !it.is_executing();
        if self.live.get(&run).is_some_and(is_unused) {
            self.remove(run);
        }
    }

    /// Removes a run whose claim this process has lost. A later `LiveRun` of the same run is kept.
    pub(super) fn remove_lost(&mut self, lost: &LiveRun) {
        let run = lost.facts.run;
        if self.live.get(&run).is_some_and(|it| std::ptr::eq(&**it, lost)) {
            self.live.remove(&run);
        }
        if let Some(feed) = self.feeds.get(&lost.facts.thread) {
            feed.remove_lost(lost);
        }
        self.release_feed(lost.facts.thread);
    }

    /// Keeps the events of a run that has ended. If there are too many, drops those of the runs that ended first.
    pub(super) fn keep_ended(&mut self, run: Arc<LiveRun>) {
        self.n_ended_events += run.buffer.len();
        self.ended.push_back(run);
        while self.ended.len() > MAX_ENDED || self.n_ended_events > MAX_ENDED_EVENTS {
            let Some(oldest) = self.ended.pop_front() else { return };
            self.n_ended_events -= oldest.buffer.len();
            self.live.remove(&oldest.facts.run);
            let thread = oldest.facts.thread;
            if let Some(feed) = self.feeds.get(&thread) {
                feed.remove(&oldest);
            }
            self.release_feed(thread);
        }
    }

    /// Keeps the events of an ended run that were read from the storage, unless they were already in memory.
    pub(super) fn keep_stored(&mut self, run: Arc<LiveRun>) {
        if run.has_ended() && !self.live.contains_key(&run.facts.run) {
            self.keep_ended(run);
        }
    }

    /// Drops all data in memory of a thread that was deleted. Clients that read its events stay connected, because the
    /// thread may be created again.
    pub(super) fn forget_thread(&mut self, thread: Uuid) {
        if let Some(feed) = self.feeds.remove(&thread).filter(|it| it.has_readers()) {
            feed.forget_ended();
            self.feeds.insert(thread, feed);
        }
        self.live.retain(|_, run| run.facts.thread != thread || !run.has_ended());
        self.ended.retain(|run| run.facts.thread != thread);
        self.n_ended_events = self.ended.iter().map(|it| it.buffer.len()).sum();
    }
}
