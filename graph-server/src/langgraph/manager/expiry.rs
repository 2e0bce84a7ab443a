//! Deletes threads, or their old checkpoints, when their time to live ends.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use graph_core::checkpoint::Keep;

use super::{
    Manager,
    reservation::{Reservation, check_not_reserved},
};
use crate::langgraph::{
    document::to_row,
    error::ApiResult,
    records::{ThreadTtl, TtlStrategy},
    storage::{Notice, ThreadChange, ThreadEntry},
};

impl Manager {
    /// Deletes the threads whose time to live has ended at `now`. A thread with active runs is deleted after these
    /// runs. If a thread cannot be deleted, the error is logged and the other threads are still deleted. Returns the
    /// time until the next thread expires.
    pub(in crate::langgraph) async fn remove_expired(
        self: &Arc<Self>,
        now: DateTime<Utc>,
    ) -> ApiResult<Option<Duration>> {
        let mut next = None;
        for ttl in self.database.list::<ThreadTtl>(None).await? {
            match (ttl.expires_at - now).to_std() {
                Ok(left) if !left.is_zero() => {
                    next = Some(next.map_or(left, |it: Duration| it.min(left)));
                }
                _ => {
                    if let Err(error) = self.expire(&ttl).await {
                        tracing::error!(thread = %ttl.thread_id, %error, "cannot expire a thread; retrying");
                    }
                }
            }
        }
        Ok(next)
    }

    /// Stores the time to live of a thread. Fails if the thread is being deleted or pruned.
    pub(in crate::langgraph) async fn set_ttl(&self, ttl: &ThreadTtl) -> ApiResult<()> {
        let mut decide = |entry: ThreadEntry| {
            self.locked_thread(ttl.thread_id, &entry)?;
            check_not_reserved(ttl.thread_id, &entry)?;
            // The time to live belongs to the owner of the thread, even if an admin sets it.
            let row = to_row(ttl, entry.owner.as_deref())?;
            Ok(ThreadChange { put: vec![row], ..ThreadChange::default() })
        };
        self.queue.change_thread(ttl.thread_id, &mut decide).await?;
        self.wake_timer().await;
        Ok(())
    }

    /// Deletes the stored events of runs that ended long ago.
    pub(in crate::langgraph) async fn delete_old_events(&self) -> ApiResult<()> {
        self.event_log.delete_old().await
    }

    /// Wakes the timers of all replicas, because a cron or the time to live of a thread was changed.
    pub(in crate::langgraph) async fn wake_timer(&self) {
        self.timer_changed.notify_one();
        if let Some(shared) = &self.shared_events
            && let Err(error) = shared.announce(Notice::Timer).await
        {
            tracing::warn!(%error, "cannot wake the timers of other replicas");
        }
    }

    /// Reserves a thread whose time to live has ended. Returns `None` if the thread has active runs or is reserved, or
    /// if its time to live is no longer `ttl`.
    async fn start_expiry(self: &Arc<Self>, ttl: &ThreadTtl) -> ApiResult<Option<Reservation>> {
        let Some(reservation) = self.reserve(ttl.thread_id).await? else { return Ok(None) };
        let stored = self.database.get::<ThreadTtl>(&ttl.thread_id.to_string()).await?;
        if stored.as_ref() == Some(ttl) {
            return Ok(Some(reservation));
        }
        reservation.release().await?;
        Ok(None)
    }

    async fn expire(self: &Arc<Self>, ttl: &ThreadTtl) -> ApiResult<()> {
        let Some(reservation) = self.start_expiry(ttl).await? else { return Ok(()) };
        let id = ttl.thread_id.to_string();
        match ttl.strategy {
            TtlStrategy::Delete => self.remove_thread_with_events(ttl.thread_id).await?,
            TtlStrategy::KeepLatest => {
                self.graphs
                    .checkpointer()
                    .prune(std::slice::from_ref(&id), Keep::Newest(1))
                    .await?;
                self.database.delete::<ThreadTtl>(&id).await?;
            }
        }
        reservation.release().await
    }
}

#[cfg(test)]
mod tests {
    use axum::{http::StatusCode, response::IntoResponse};

    use super::*;
    use crate::langgraph::manager::test_records::{new_run, new_thread, open_manager};

    /// Returns a manager with a thread, and the thread's time to live, which has ended.
    async fn manager_with_expired_thread() -> (Arc<Manager>, ThreadTtl) {
        let manager = open_manager(":memory:");
        let thread = new_thread();
        manager.database.put(&thread).await.unwrap();
        let ttl = ThreadTtl {
            thread_id: thread.thread_id,
            strategy: TtlStrategy::Delete,
            ttl_minutes: 1.0,
            expires_at: DateTime::UNIX_EPOCH,
        };
        manager.set_ttl(&ttl).await.unwrap();
        (manager, ttl)
    }

    #[tokio::test]
    async fn a_thread_whose_time_to_live_was_changed_is_kept() {
        let (manager, ttl) = manager_with_expired_thread().await;
        let changed = ThreadTtl { ttl_minutes: 2.0, ..ttl.clone() };
        manager.set_ttl(&changed).await.unwrap();
        manager.expire(&ttl).await.unwrap();
        assert!(manager.thread(ttl.thread_id).await.is_ok());
        manager.set_ttl(&ttl).await.unwrap();
        manager.expire(&ttl).await.unwrap();
        assert!(manager.thread(ttl.thread_id).await.is_err());
    }

    #[tokio::test]
    async fn an_expiring_thread_admits_no_runs_and_no_new_time_to_live() {
        let (manager, ttl) = manager_with_expired_thread().await;
        let expiring = manager.start_expiry(&ttl).await.unwrap().unwrap();
        let thread = manager.thread(ttl.thread_id).await.unwrap();
        let run = new_run(ttl.thread_id);
        let rejected = manager.create(&run, thread.clone()).await.unwrap_err();
        assert_eq!(rejected.into_response().status(), StatusCode::CONFLICT);
        let rejected = manager.set_ttl(&ttl).await.unwrap_err();
        assert_eq!(rejected.into_response().status(), StatusCode::CONFLICT);
        expiring.release().await.unwrap();
        manager.create(&run, thread).await.unwrap();
        assert!(
            manager.start_expiry(&ttl).await.unwrap().is_none(),
            "the thread has an active run"
        );
    }

    #[tokio::test]
    async fn a_thread_that_is_being_deleted_admits_no_runs() {
        let (manager, ttl) = manager_with_expired_thread().await;
        let thread = manager.thread(ttl.thread_id).await.unwrap();
        let run = new_run(ttl.thread_id);
        let reservation = manager.reserve(ttl.thread_id).await.unwrap().unwrap();
        let deleting = tokio::spawn({
            let (manager, thread) = (manager.clone(), ttl.thread_id);
            async move { manager.delete_thread(thread).await }
        });
        let rejected = manager.create(&run, thread.clone()).await.unwrap_err();
        assert_eq!(rejected.into_response().status(), StatusCode::CONFLICT);
        reservation.release().await.unwrap();
        deleting.await.unwrap().unwrap();
        assert!(manager.thread(ttl.thread_id).await.is_err());
        manager.create(&run, thread).await.unwrap();
        assert!(
            manager.reserve(ttl.thread_id).await.unwrap().is_none(),
            "the thread has an active run"
        );
    }

    #[tokio::test]
    async fn a_thread_whose_run_waits_for_its_start_time_is_kept() {
        let (manager, ttl) = manager_with_expired_thread().await;
        let mut run = new_run(ttl.thread_id);
        run.kwargs.after_seconds = 60.0;
        manager.create(&run, manager.thread(ttl.thread_id).await.unwrap()).await.unwrap();
        manager.expire(&ttl).await.unwrap();
        assert!(manager.thread(ttl.thread_id).await.is_ok());
    }
}
