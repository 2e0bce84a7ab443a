//! Cancels runs, at the request of a client or because the server shuts down.

use std::sync::Arc;

use uuid::Uuid;

use super::{LiveRun, Manager};
use crate::langgraph::{
    cancellation::Cancellation,
    error::{ApiError, ApiResult},
    records::Run,
    storage::{ActiveRun, CancelOutcome},
    view::View,
};

impl Manager {
    /// Cancels an active run.
    pub(in crate::langgraph) async fn cancel(
        &self,
        thread: Uuid,
        run: Uuid,
        cancellation: Cancellation,
    ) -> ApiResult<Arc<LiveRun>> {
        let not_active = || {
            let detail =
                format!("run {run} is not active on thread {thread}, so it cannot be cancelled");
            ApiError::not_found(detail)
        };
        let live = self.live(run).await?.filter(|it| it.facts.thread == thread && !it.has_ended());
        let live = live.ok_or_else(not_active)?;
        match self.queue.request_cancel(run, &cancellation).await? {
            CancelOutcome::NotActive => return Err(not_active()),
            CancelOutcome::Requested => live.request_cancel(cancellation),
            CancelOutcome::Claimed(claim) => {
                // The run ends completely, even if the client does not see all objects that belong to it.
                let (manager, live) = (self.with_view(View::default()), live.clone());
                // A separate task, because a client that disconnects must not leave a claimed run behind.
                let ending = tokio::spawn(async move {
                    manager.execute_here(&claim, &live).await?;
                    manager.end_cancelled(&claim, &live, cancellation).await;
                    Ok::<_, ApiError>(())
                });
                ending.await.map_err(|error| ApiError::internal(&error))??;
            }
        }
        Ok(live)
    }

    /// Returns the active runs of a thread, or of all threads, that the client sees.
    pub(in crate::langgraph) async fn active(
        &self,
        thread: Option<Uuid>,
    ) -> ApiResult<Vec<ActiveRun>> {
        let mut visible = Vec::new();
        for active in self.queue.active_runs(thread).await? {
            let (id, owner) = (active.run.to_string(), active.owner.as_deref());
            if self.database.sees::<Run>(&id, owner).await? {
                visible.push(active);
            }
        }
        Ok(visible)
    }

    /// Stops all runs of this process without marking them as ended, so that another replica continues them, or this
    /// server when it starts again.
    pub(in crate::langgraph) async fn shut_down(&self) {
        self.shutting_down.send_replace(true);
        let active = self.lock().active();
        active.iter().for_each(|it| it.control.cancel());
        for live in &active {
            match live.is_executing() {
                true => live.buffer.closed().await,
                // Ends the streams of clients, which then connect to another replica.
                false => live.buffer.close(),
            }
        }
        if let Err(error) = self.queue.release_claims().await {
            tracing::warn!(%error, "cannot release the runs; they continue when their leases expire");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::langgraph::{
        authorize::{Action, Resource},
        cancellation::CancelAction,
        id::new_id,
        manager::test_records::{claim_next, new_run, new_thread, open_manager},
        records::{RunStatus, Thread},
        request::run::MultitaskStrategy,
    };
    #[cfg(feature = "postgres")]
    use crate::langgraph::{manager::test_records::manager_with, storage};

    fn interrupt() -> Cancellation {
        Cancellation::new(CancelAction::Interrupt, "no longer needed")
    }

    /// Creates a run and claims it.
    async fn start_run(manager: &Manager) -> Run {
        let thread = new_thread();
        let run = Run { status: RunStatus::Running, ..new_run(thread.thread_id) };
        manager.create(&run, thread).await.unwrap();
        let claim = claim_next(manager).await;
        assert_eq!(claim.run, run.run_id);
        run
    }

    #[tokio::test]
    async fn a_cancelled_run_is_not_executed_again_after_a_crash() {
        let files = tempfile::tempdir().unwrap();
        let path = files.path().join("api.db");
        let killed = open_manager(&path);
        let run = start_run(&killed).await;
        killed.cancel(run.thread_id, run.run_id, interrupt()).await.unwrap();
        drop(killed);

        let manager = open_manager(&path);
        manager.execute(claim_next(&manager).await).await;
        let ended = manager.run(run.thread_id, run.run_id).await.unwrap();
        assert_eq!(ended.status, RunStatus::Interrupted);
        assert_eq!(ended.cancel_reason.as_deref(), Some("no longer needed"));
        assert_eq!(ended.attempt, run.attempt, "the run was not executed");
    }

    #[tokio::test]
    async fn a_rollback_survives_a_crash() {
        let files = tempfile::tempdir().unwrap();
        let path = files.path().join("api.db");
        let killed = open_manager(&path);
        let run = start_run(&killed).await;
        let rollback = Cancellation::new(CancelAction::Rollback, "wrong input");
        for cancellation in [interrupt(), rollback] {
            killed.cancel(run.thread_id, run.run_id, cancellation).await.unwrap();
        }
        drop(killed);

        let manager = open_manager(&path);
        manager.execute(claim_next(&manager).await).await;
        assert!(manager.run(run.thread_id, run.run_id).await.is_err(), "the run was deleted");
    }

    #[tokio::test]
    async fn runs_that_another_run_interrupts_stay_cancelled_after_a_crash() {
        let files = tempfile::tempdir().unwrap();
        let path = files.path().join("api.db");
        let killed = open_manager(&path);
        let run = start_run(&killed).await;
        let next =
            Run { multitask_strategy: MultitaskStrategy::Interrupt, ..new_run(run.thread_id) };
        let thread = killed.thread(run.thread_id).await.unwrap();
        killed.create(&next, thread).await.unwrap();
        drop(killed);

        let manager = open_manager(&path);
        let claim = claim_next(&manager).await;
        assert_eq!(claim.run, run.run_id);
        manager.execute(claim).await;
        let ended = manager.run(run.thread_id, run.run_id).await.unwrap();
        assert_eq!(ended.status, RunStatus::Interrupted);
        assert_eq!(claim_next(&manager).await.run, next.run_id);
    }

    #[tokio::test]
    async fn a_pending_run_whose_cancellation_was_stopped_by_a_crash_is_ended_before_other_runs() {
        let files = tempfile::tempdir().unwrap();
        let path = files.path().join("api.db");
        let killed = open_manager(&path);
        let run = start_run(&killed).await;
        let mut pending = new_run(run.thread_id);
        pending.kwargs.after_seconds = 3600.0;
        let thread = killed.thread(run.thread_id).await.unwrap();
        killed.create(&pending, thread).await.unwrap();
        let outcome = killed.queue.request_cancel(pending.run_id, &interrupt()).await.unwrap();
        assert!(matches!(outcome, CancelOutcome::Claimed(_)));
        drop(killed);

        let manager = open_manager(&path);
        assert_eq!(claim_next(&manager).await.run, run.run_id);
        // The run that executes does not delay the end of the cancelled one.
        let claim = claim_next(&manager).await;
        assert_eq!(claim.run, pending.run_id);
        manager.execute(claim).await;
        let ended = manager.run(run.thread_id, pending.run_id).await.unwrap();
        assert_eq!(ended.status, RunStatus::Interrupted);
    }

    #[cfg(feature = "postgres")]
    #[tokio::test]
    async fn a_run_that_was_cancelled_after_its_end_was_stored_keeps_its_status() {
        let Some(url) = graph_tests::postgres::fresh_database() else { return };
        let manager = manager_with(storage::connect(&url).await.unwrap());
        let thread = new_thread();
        let mut run = new_run(thread.thread_id);
        manager.create(&run, thread).await.unwrap();
        let killed = claim_next(&manager).await;
        run.status = RunStatus::Success;
        assert!(manager.put_ended(&killed, &run, None).await.unwrap());
        let rollback = Cancellation::new(CancelAction::Rollback, "too late");
        let outcome = manager.queue.request_cancel(run.run_id, &rollback).await.unwrap();
        assert!(matches!(outcome, CancelOutcome::Requested));
        manager.queue.release_claims().await.unwrap();

        manager.execute(claim_next(&manager).await).await;
        let ended = manager.run(run.thread_id, run.run_id).await.unwrap();
        assert_eq!(ended.status, RunStatus::Success);
        assert!(!manager.is_busy(run.thread_id).await.unwrap());
    }

    #[tokio::test]
    async fn runs_are_hidden_from_clients_that_no_longer_see_their_thread() {
        let manager = open_manager(":memory:");
        let team = |name: &str| Map::from_iter([("team".to_owned(), json!(name))]);
        let thread = Thread::new(new_id(), team("east"));
        let run = Run { metadata: team("east"), ..new_run(thread.thread_id) };
        manager.create(&run, thread).await.unwrap();
        let access = &[(Resource::Runs, Action::Update)];
        let client = manager.with_view(View::of_owner("ada").requiring(team("east"), access));
        assert!(client.run(run.thread_id, run.run_id).await.is_ok());
        assert!(client.live(run.run_id).await.unwrap().is_some());

        let moved = manager.change_thread(run.thread_id, |it| it.metadata = team("west"));
        moved.await.unwrap();
        assert!(client.run(run.thread_id, run.run_id).await.is_err());
        assert!(client.live(run.run_id).await.unwrap().is_none());
        assert!(client.cancel(run.thread_id, run.run_id, interrupt()).await.is_err());
        assert!(manager.cancel(run.thread_id, run.run_id, interrupt()).await.is_ok());
    }
}
