//! Repairs the threads of an earlier process that was killed while it ended a run.
//!
//! The final status of a run is stored before its thread is updated. If the storage is shared, the run stays in the
//! queue until both are stored, so the replica that claims it next updates the thread. SQLite has no such queue: the
//! runs that have ended are not queued again.

use std::collections::HashSet;

use uuid::Uuid;

use super::{Manager, finish::lost_error};
use crate::langgraph::{
    error::{ApiError, ApiResult},
    records::{Run, Thread, ThreadStatus},
    storage::Search,
};

impl Manager {
    /// Updates the threads that are busy although they have no active run, and deletes those that were temporary. Must
    /// be called before runs are executed, and only if no other process uses the storage.
    pub(super) async fn repair_threads(&self) -> ApiResult<()> {
        let active = self.queue.active_runs(None).await?;
        let active: HashSet<_> = active.iter().map(|it| it.thread.to_string()).collect();
        let status = Some(ThreadStatus::Busy.name());
        let busy = Search { status, sort_by: "created_at", ..Search::default() };
        let busy = self.database.search_ids::<Thread>(&busy).await?;
        for id in busy.iter().filter(|it| !active.contains(*it)) {
            if let Err(error) = self.repair_thread(id).await {
                tracing::error!(thread = %id, %error, "cannot update a thread whose runs have ended");
            }
        }
        Ok(())
    }

    async fn repair_thread(&self, id: &str) -> ApiResult<()> {
        let thread = Uuid::try_parse(id).map_err(|error| ApiError::internal(&error))?;
        let runs = self.database.list::<Run>(Some(id)).await?;
        let last = runs.iter().max_by(|a, b| a.updated_at.cmp(&b.updated_at));
        if last.is_some_and(|it| it.kwargs.temporary) {
            return self.remove_thread(thread).await;
        }
        let error = last.filter(|it| it.status.is_failure()).map(|_| lost_error());
        self.refresh_thread(thread, None, error).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "postgres")]
    use crate::langgraph::{
        manager::test_records::{claim_next, manager_with},
        storage,
    };
    use crate::langgraph::{
        manager::test_records::{new_run, new_thread, open_manager},
        records::RunStatus,
    };

    /// Stores a busy thread with a run, and starts another process with the same database. Returns the thread.
    async fn restarted(run: impl FnOnce(&mut Run)) -> Option<Thread> {
        let files = tempfile::tempdir().unwrap();
        let path = files.path().join("api.db");
        let thread = Thread { status: ThreadStatus::Busy, ..new_thread() };
        let mut stored = new_run(thread.thread_id);
        run(&mut stored);
        let killed = open_manager(&path);
        killed.database.put(&thread).await.unwrap();
        killed.database.put(&stored).await.unwrap();
        drop(killed);
        let manager = open_manager(&path);
        manager.repair_threads().await.unwrap();
        manager.database.get(&thread.thread_id.to_string()).await.unwrap()
    }

    #[tokio::test]
    async fn a_thread_whose_run_has_ended_becomes_idle() {
        let thread = restarted(|run| run.status = RunStatus::Success).await.unwrap();
        assert_eq!((thread.status, thread.error), (ThreadStatus::Idle, None));
    }

    #[tokio::test]
    async fn a_thread_whose_run_has_failed_has_an_error() {
        let thread = restarted(|run| run.status = RunStatus::Timeout).await.unwrap();
        assert_eq!((thread.status, thread.error), (ThreadStatus::Error, Some(lost_error())));
    }

    #[tokio::test]
    async fn a_thread_whose_run_continues_stays_busy() {
        for status in [RunStatus::Pending, RunStatus::Running] {
            let thread = restarted(|run| run.status = status).await.unwrap();
            assert_eq!(thread.status, ThreadStatus::Busy);
        }
    }

    #[tokio::test]
    async fn a_temporary_thread_is_deleted() {
        let end = |run: &mut Run| {
            run.status = RunStatus::Success;
            run.kwargs.temporary = true;
        };
        assert_eq!(restarted(end).await, None);
    }

    #[cfg(feature = "postgres")]
    #[tokio::test]
    async fn the_next_replica_updates_the_thread_of_a_run_that_has_ended_or_was_deleted() {
        let Some(url) = graph_tests::postgres::fresh_database() else { return };
        for is_deleted in [false, true] {
            let manager = manager_with(storage::connect(&url).await.unwrap());
            let thread = new_thread();
            let mut run = new_run(thread.thread_id);
            manager.create(&run, thread.clone()).await.unwrap();
            let killed = claim_next(&manager).await;
            match is_deleted {
                true => {
                    assert!(manager.database.delete::<Run>(&run.run_id.to_string()).await.unwrap())
                }
                false => {
                    run.status = RunStatus::Success;
                    assert!(manager.put_ended(&killed, &run, None).await.unwrap());
                }
            }
            let busy = manager.thread(thread.thread_id).await.unwrap();
            assert_eq!(busy.status, ThreadStatus::Busy);
            manager.queue.release_claims().await.unwrap();

            manager.execute(claim_next(&manager).await).await;
            let updated = manager.thread(thread.thread_id).await.unwrap();
            assert_eq!(updated.status, ThreadStatus::Idle);
            assert!(!manager.is_busy(thread.thread_id).await.unwrap());
        }
    }
}
