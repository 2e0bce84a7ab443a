//! The active runs, their order of execution, and the ended runs that are still in memory.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use uuid::Uuid;

use super::{live_run::LiveRun, thread_feed::ThreadFeed};
use crate::langgraph::error::{ApiError, ApiResult};

/// Maximum number of ended runs whose events are kept in memory.
const MAX_ENDED: usize = 1000;
/// Maximum number of events of ended runs that are kept in memory.
const MAX_ENDED_EVENTS: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// Active runs, and runs that ended recently.
    pub(super) live: HashMap<Uuid, Arc<LiveRun>>,
    /// The active runs of each thread. The first one executes.
    pub(super) queues: HashMap<Uuid, VecDeque<Arc<LiveRun>>>,
    /// Threads that are being deleted or pruned. No run starts on them.
    pub(super) reserved: HashSet<Uuid>,
    feeds: HashMap<Uuid, Arc<ThreadFeed>>,
    /// Ended runs, oldest first.
    ended: VecDeque<Arc<LiveRun>>,
    /// Number of buffered events of all ended runs.
    n_ended_events: usize,
}

impl Schedule {
    /// Returns the event feed of a thread, and creates it if necessary.
    pub(super) fn feed(&mut self, thread: Uuid) -> Arc<ThreadFeed> {
        self.feeds.entry(thread).or_insert_with(|| Arc::new(ThreadFeed::new())).clone()
    }

    /// Returns the event feed of a thread if a client reads it.
    pub(super) fn read_feed(&self, thread: Uuid) -> Option<&Arc<ThreadFeed>> {
        self.feeds.get(&thread).filter(|it| it.has_readers())
    }

    /// Drops the event feed of a thread unless a client reads it.
    pub(super) fn release_feed(&mut self, thread: Uuid) {
        if self.feeds.get(&thread).is_some_and(|it| Arc::strong_count(it) == 1) {
            self.feeds.remove(&thread);
        }
    }

    /// Returns whether a thread has runs that execute, wait in its queue or wait for their start time.
    pub(super) fn has_active_runs(&self, thread: Uuid) -> bool {
        let is_active = |it: &Arc<LiveRun>| it.facts.thread == thread && !it.has_ended();
        self.queues.contains_key(&thread) || self.live.values().any(is_active)
    }

    /// Fails if a thread is being deleted or pruned.
    pub(super) fn check_not_reserved(&self, thread: Uuid) -> ApiResult<()> {
        match self.reserved.contains(&thread) {
            true => Err(ApiError::conflict(format!(
                "thread {thread} is being deleted or pruned; try again when this is done"
            ))),
            false => Ok(()),
        }
    }

    /// Adds a run to the queue of its thread. Returns whether the thread had no active run.
    pub(super) fn enqueue(&mut self, run: &Arc<LiveRun>) -> bool {
        self.live.insert(run.facts.run, run.clone());
        let queue = self.queues.entry(run.facts.thread).or_default();
        queue.push_back(run.clone());
        queue.len() == 1
    }

    /// Removes the first run of a thread's queue, which has ended. Returns the next one.
    pub(super) fn advance(&mut self, thread: Uuid) -> Option<Arc<LiveRun>> {
        let queue = self.queues.get_mut(&thread)?;
        queue.pop_front();
        let next = queue.front().cloned();
        if next.is_none() {
            self.queues.remove(&thread);
        }
        next
    }

    /// Removes a run that has not started from its queue. Returns whether it was there.
    pub(super) fn remove_pending(&mut self, run: &LiveRun) -> bool {
        let Some(queue) = self.queues.get_mut(&run.facts.thread) else { return false };
        let position = queue.iter().position(|it| it.facts.run == run.facts.run);
        match position {
            Some(position) if position > 0 => queue.remove(position).is_some(),
            _ => false,
        }
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
                if feed.is_unused() && !self.queues.contains_key(&thread) {
                    self.feeds.remove(&thread);
                }
            }
        }
    }

    /// Drops all data in memory of a thread that was deleted.
    pub(super) fn forget_thread(&mut self, thread: Uuid) {
        self.feeds.remove(&thread);
        self.live.retain(|_, run| run.facts.thread != thread || !run.has_ended());
        self.ended.retain(|run| run.facts.thread != thread);
        self.n_ended_events = self.ended.iter().map(|it| it.buffer.len()).sum();
    }
}
