//! Cooperation with other replicas that use the same storage.
//!
//! Each run is executed by the replica that claimed it. Other replicas follow the run while their clients read its
//! events: they read the stored events whenever the executing replica announces some.

use std::sync::{Arc, Weak, atomic::Ordering};

use tokio::sync::broadcast::{self, error::RecvError};
use uuid::Uuid;

use super::{LiveRun, Manager, ThreadFeed};
use crate::langgraph::{
    error::{ApiError, ApiResult},
    position::Position,
    records::Thread,
    retry::retry,
    state_json::state_json,
    storage::Notice,
};

impl Manager {
    /// Loads an event feed again, in a separate task. Tries again after a failure while a client reads the feed.
    fn reload_feed(self: &Arc<Self>, thread: Uuid, feed: Arc<ThreadFeed>) {
        feed.is_loaded.store(false, Ordering::Release);
        let manager = self.clone();
        tokio::spawn(async move {
            let load = || manager.load_feed(thread, &feed);
            let should_retry = |error: &ApiError| {
                tracing::warn!(%thread, %error, "cannot read the runs of a thread; retrying");
                feed.has_readers()
            };
            // A feed without readers is loaded when a client reads it.
            let _ = retry(load, should_retry, manager.shutting_down()).await;
        });
    }

    /// Returns a run that this process has in memory. If this process has lost its claim on an active run, abandons the
    /// run and returns `None`.
    pub(super) fn find_or_abandon(&self, run: Uuid) -> Option<Arc<LiveRun>> {
        let live = self.lock().live.get(&run).cloned()?;
        if live.is_lost() && !live.has_ended() {
            self.abandon(&live);
            return None;
        }
        Some(live)
    }

    /// Stops the execution of a run whose claim this process has lost or gives up. Clients that read its events connect
    /// again, and then follow the replica that continues the run.
    pub(super) fn abandon(&self, live: &LiveRun) {
        tracing::warn!(run = %live.facts.run, "this replica no longer executes the run");
        live.set_lost();
        self.lock().remove_lost(live);
        live.buffer.close();
    }

    async fn handle_notice(self: &Arc<Self>, notice: Notice) {
        match notice {
            Notice::Events(run) => self.follow_soon(run),
            Notice::Started { thread, run } => {
                self.lock().remove_unused(run);
                let feed = self.lock().existing_feed(thread);
                if let Some(feed) = feed {
                    self.add_to_feed(thread, feed, run).await;
                }
            }
            Notice::StateEdited(thread) => self.publish_current_state(thread).await,
            Notice::Deleted(thread) => self.lock().forget_thread(thread),
            Notice::Timer => self.timer_changed.notify_one(),
            // The task that renews the leases handles this notice.
            Notice::Cancelled => {}
            Notice::Lost => {
                let (active, feeds) = {
                    let live_runs = self.lock();
                    (live_runs.active(), live_runs.feeds())
                };
                active.iter().for_each(|it| self.follow_soon(it.facts.run));
                for (thread, feed) in feeds {
                    if feed.is_loaded.load(Ordering::Acquire) || feed.has_readers() {
                        self.reload_feed(thread, feed);
                    }
                }
                self.queue.changed().notify_one();
            }
        }
    }

    /// Adds a new run to an event feed if the feed is loaded. Otherwise loads the feed if it has readers.
    async fn add_to_feed(self: &Arc<Self>, thread: Uuid, feed: Arc<ThreadFeed>, run: Uuid) {
        // Waits until the feed is loaded, if it is being loaded.
        drop(feed.loading.lock().await);
        if !feed.is_loaded.load(Ordering::Acquire) {
            if feed.has_readers() {
                self.reload_feed(thread, feed);
            }
            return;
        }
        match self.live_stored(run).await {
            Ok(live) => live.into_iter().for_each(|it| feed.add(it)),
            Err(error) => {
                tracing::warn!(%run, %error, "cannot follow a run; retrying");
                self.reload_feed(thread, feed);
            }
        }
    }

    /// Sends the state of a thread to the readers of its events.
    async fn publish_current_state(&self, thread: Uuid) {
        let has_readers = self.lock().existing_feed(thread).is_some_and(|it| it.has_readers());
        if !has_readers {
            return;
        }
        match self.current_state(thread).await {
            Ok(Some(state)) => self.add_state(thread, state).await,
            Ok(None) => {}
            Err(error) => tracing::error!(%thread, %error, "cannot read the state of a thread"),
        }
    }

    async fn current_state(&self, thread: Uuid) -> ApiResult<Option<serde_json::Value>> {
        let stored = self.database.get::<Thread>(&thread.to_string()).await?;
        let Some(graph) = stored.as_ref().and_then(Thread::graph) else { return Ok(None) };
        let state = self.graph(graph)?.state(&thread.to_string(), &Position::HEAD, false).await?;
        Ok(state.map(|it| state_json(thread, &it, false)))
    }

    /// Reads the events that another replica has announced, in a separate task.
    fn follow_soon(self: &Arc<Self>, run: Uuid) {
        self.lock().remove_unused(run);
        let live = self.find_or_abandon(run);
        let Some(live) = live.filter(|it| !it.is_executing() && !it.has_ended()) else { return };
        if live.is_stale.swap(true, Ordering::AcqRel) {
            return;
        }
        let manager = self.clone();
        tokio::spawn(async move {
            let follow = || manager.follow_run(&live);
            let should_retry = |error: &ApiError| {
                tracing::warn!(%run, %error, "cannot read the events of a run; retrying");
                true
            };
            let followed = retry(follow, should_retry, manager.shutting_down()).await;
            if followed.is_ok() && live.has_ended() {
                manager.lock().remove(run);
            }
        });
    }
}

/// Handles the notices of all replicas until the manager is dropped.
pub(super) async fn follow(manager: Weak<Manager>, mut notices: broadcast::Receiver<Notice>) {
    loop {
        let notice = match notices.recv().await {
            Ok(notice) => notice,
            Err(RecvError::Lagged(_)) => Notice::Lost,
            Err(RecvError::Closed) => return,
        };
        let Some(manager) = manager.upgrade() else { return };
        manager.handle_notice(notice).await;
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::langgraph::{
        authorize::{Action, Resource},
        id::new_id,
        manager::test_records::{claim_next, manager_with, new_run},
        storage,
        view::View,
    };

    #[tokio::test]
    async fn a_feed_contains_the_runs_that_its_first_reader_does_not_see() {
        let Some(url) = graph_tests::postgres::fresh_database() else { return };
        let executing = manager_with(storage::connect(&url).await.unwrap());
        let entries = Map::from_iter([("team".to_owned(), json!("east"))]);
        let thread = Thread::new(new_id(), entries.clone());
        // The run has no metadata.
        let run = new_run(thread.thread_id);
        executing.create(&run, thread).await.unwrap();
        claim_next(&executing).await;

        let other = manager_with(storage::connect(&url).await.unwrap());
        let access = &[(Resource::Threads, Action::Read)];
        let client = other.with_view(View::of_owner("ada").requiring(entries, access));
        client.feed(run.thread_id).await.unwrap();
        let feed = other.feed(run.thread_id).await.unwrap();
        let runs: Vec<_> = feed.runs.borrow().iter().map(|it| it.facts.run).collect();
        assert_eq!(runs, [run.run_id]);
    }
}
