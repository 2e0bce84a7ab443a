//! Cancels runs.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::time::sleep;
use uuid::Uuid;

use super::{LiveRun, Manager};
use crate::langgraph::{
    cancellation::{CancelAction, Cancellation},
    error::{ApiError, ApiResult},
    records::{Run, Thread, ThreadTtl},
    storage::{ActiveRun, CancelOutcome, Notice},
};

/// First delay between attempts to reserve a thread that is to be deleted. Each further delay is twice as long.
const RESERVE_RETRY: Duration = Duration::from_millis(5);
/// Longest delay between attempts to reserve a thread.
const MAX_RESERVE_RETRY: Duration = Duration::from_millis(500);

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
                let (manager, live) = (self.clone(), live.clone());
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

    /// Cancels the active runs of a thread, waits for their end, and deletes the thread.
    pub(in crate::langgraph) async fn delete_thread(
        self: &Arc<Self>,
        thread: Uuid,
    ) -> ApiResult<()> {
        let cancellation = Cancellation::new(CancelAction::Interrupt, "the thread was deleted");
        let mut delay = RESERVE_RETRY;
        loop {
            for active in self.active(Some(thread)).await? {
                // A run that ended in the meantime needs no cancellation.
                if let Ok(live) = self.cancel(thread, active.run, cancellation.clone()).await {
                    live.result().await;
                }
            }
            if let Some(reservation) = self.reserve(thread).await? {
                self.remove_thread_with_events(thread).await?;
                return reservation.release().await;
            }
            if self.is_shutting_down() {
                return Err(ApiError::conflict("the server is shutting down; try again later"));
            }
            // A run was created in the meantime, the last run is still leaving the queue, or another request deletes
            // the thread.
            sleep(delay).await;
            delay = (delay * 2).min(MAX_RESERVE_RETRY);
        }
    }

    /// Deletes a reserved thread and the events of its runs.
    pub(super) async fn remove_thread_with_events(&self, thread: Uuid) -> ApiResult<()> {
        self.remove_thread(thread).await?;
        match &self.shared_events {
            Some(shared) => shared.delete_thread(thread).await,
            None => Ok(()),
        }
    }

    /// Deletes a thread that is reserved or whose last run is ending.
    pub(super) async fn remove_thread(&self, thread: Uuid) -> ApiResult<()> {
        let id = thread.to_string();
        if self.graphs.has_executor() {
            for graph in self.graphs_of_thread(&id).await? {
                if let Some(graph) = self.graphs.get(&graph) {
                    graph.delete_thread(&id).await?;
                }
            }
        }
        self.graphs.checkpointer().delete_thread(&id).await?;
        self.database.delete_children::<Run>(&id).await?;
        self.database.delete::<ThreadTtl>(&id).await?;
        self.database.delete::<Thread>(&id).await?;
        self.lock().forget_thread(thread);
        if let Some(shared) = &self.shared_events
            && let Err(error) = shared.announce(Notice::Deleted(thread)).await
        {
            tracing::warn!(%thread, %error, "cannot announce the deletion of a thread");
        }
        Ok(())
    }

    /// Returns the graphs of a thread and of its runs.
    async fn graphs_of_thread(&self, id: &str) -> ApiResult<BTreeSet<String>> {
        let thread = self.database.get::<Thread>(id).await?;
        let runs = self.database.list::<Run>(Some(id)).await?;
        let own = thread.as_ref().and_then(Thread::graph).map(str::to_owned);
        Ok(runs.into_iter().map(|it| it.kwargs.graph_id).chain(own).collect())
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
