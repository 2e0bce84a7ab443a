//! Reads stored events: those of runs that another replica executes, and those from before a restart.

use std::sync::{Arc, atomic::Ordering};

use uuid::Uuid;

use super::{LiveRun, Manager, ThreadFeed};
use crate::langgraph::{
    error::ApiResult,
    records::Run,
    storage::{Claim, StoredEvent},
    stream::item::Item,
};

impl Manager {
    /// Returns a run whose events can be read: an active run, or one with events in memory or in the storage.
    pub(super) async fn live_stored(&self, run: Uuid) -> ApiResult<Option<Arc<LiveRun>>> {
        if let Some(live) = self.find_or_abandon(run) {
            self.follow_run(&live).await?;
            return Ok(Some(live));
        }
        let id = run.to_string();
        let Some(stored) = self.database.get::<Run>(&id).await? else { return Ok(None) };
        let owner = self.database.owner_of::<Run>(&id).await?.flatten();
        let is_active = stored.status.is_active()
            || self.queue.active_runs(Some(stored.thread_id)).await?.iter().any(|it| it.run == run);
        let live = match is_active {
            true => self.lock().add(&stored, owner),
            false => self.lock().unlisted(&stored, owner),
        };
        self.follow_run(&live).await?;
        // The run has ended on another replica in the meantime.
        if is_active && live.has_ended() && !live.is_executing() {
            self.lock().remove(run);
        }
        // The events of a run that ended long ago are deleted.
        Ok(Some(live).filter(|it| is_active || it.has_ended()))
    }

    /// Adds the runs with stored events to the event feed of a thread.
    pub(super) async fn load_feed(&self, thread: Uuid, feed: &ThreadFeed) -> ApiResult<()> {
        let _loading = feed.loading.lock().await;
        if feed.is_loaded.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut stored = Vec::new();
        for run in self.event_log.runs_of_thread(thread).await? {
            stored.extend(self.live_stored(run).await?);
        }
        // The lock is held while the runs are added, so a run that is abandoned later is removed from the feed again.
        let mut live_runs = self.lock();
        let n_found = stored.len();
        stored.retain(|it| it.has_ended() || !it.is_lost());
        feed.is_loaded.store(stored.len() == n_found, Ordering::Release);
        feed.add_earlier(stored.clone());
        // A feed of shared storage is dropped when its last reader disconnects.
        if self.shared_events.is_none() {
            stored.into_iter().for_each(|it| live_runs.keep_stored(it));
        }
        Ok(())
    }

    /// Takes over the execution of a claimed run, with the events that an earlier process has stored.
    pub(super) async fn execute_here(&self, claim: &Claim, live: &LiveRun) -> ApiResult<()> {
        let _following = live.following.lock().await;
        // The lease is renewed as soon as the run counts as executing.
        live.set_executing(claim.fence);
        if let Err(error) = self.read_events(live).await {
            self.abandon(live);
            return Err(error);
        }
        live.buffer.number_after(claim.last_seq);
        Ok(())
    }

    /// Reads the new events of a run, unless this process executes it.
    pub(super) async fn follow_run(&self, live: &LiveRun) -> ApiResult<()> {
        let _following = live.following.lock().await;
        live.is_stale.store(false, Ordering::Release);
        match live.is_executing() || live.has_ended() {
            true => Ok(()),
            false => self.read_events(live).await,
        }
    }

    async fn read_events(&self, live: &LiveRun) -> ApiResult<()> {
        let mut last_seq = live.buffer.last_seq();
        loop {
            let events = self.event_log.read(live.facts.run, last_seq).await?;
            if events.is_empty() {
                return Ok(());
            }
            for event in events {
                match event {
                    StoredEvent::Item { seq, body } => {
                        last_seq = seq;
                        match serde_json::from_str::<Item>(&body) {
                            Ok(item) => live.buffer.push_numbered(Item { seq, ..item }),
                            Err(error) => {
                                let run = live.facts.run;
                                tracing::error!(%run, seq, %error, "cannot decode an event of a run");
                            }
                        }
                    }
                    StoredEvent::End { output } => {
                        live.end(output);
                        return Ok(());
                    }
                }
            }
        }
    }
}
