//! Cancels runs.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::sleep;
use uuid::Uuid;

use super::{
    LiveRun, Manager,
    cancellation::{CancelAction, Cancellation},
};
use crate::langgraph::{
    error::{ApiError, ApiResult},
    records::{Run, Thread, ThreadTtl},
};

/// Interval between attempts to reserve a thread that is to be deleted.
const RESERVE_RETRY: Duration = Duration::from_millis(5);

impl Manager {
    /// Cancels an active run.
    pub(in crate::langgraph) async fn cancel(
        self: &Arc<Self>,
        thread: Uuid,
        run: Uuid,
        cancellation: Cancellation,
    ) -> ApiResult<Arc<LiveRun>> {
        let live = self.live(run).filter(|it| it.facts.thread == thread && !it.has_ended());
        let Some(live) = live else {
            let detail =
                format!("run {run} is not active on thread {thread}, so it cannot be cancelled");
            return Err(ApiError::not_found(detail));
        };
        live.request_cancel(cancellation.clone());
        let removed = self.lock().remove_pending(&live);
        if removed {
            self.end_cancelled(&live, cancellation).await;
        }
        Ok(live)
    }

    /// Returns the active runs of a thread, or of all threads.
    pub(in crate::langgraph) fn active(&self, thread: Option<Uuid>) -> Vec<Arc<LiveRun>> {
        let schedule = self.lock();
        let active = schedule.live.values().filter(|it| !it.has_ended());
        let visible = active.filter(|it| self.sees(it));
        visible
            .filter(|it| thread.is_none_or(|thread| it.facts.thread == thread))
            .cloned()
            .collect()
    }

    /// Cancels the active runs of a thread, waits for their end, and deletes the thread.
    pub(in crate::langgraph) async fn delete_thread(
        self: &Arc<Self>,
        thread: Uuid,
    ) -> ApiResult<()> {
        let cancellation = Cancellation::new(CancelAction::Interrupt, "the thread was deleted");
        loop {
            for live in self.active(Some(thread)) {
                // A run that ended in the meantime needs no cancellation.
                let _ = self.cancel(thread, live.facts.run, cancellation.clone()).await;
                live.result().await;
            }
            if let Some(_reservation) = self.reserve(thread) {
                return self.remove_thread(thread).await;
            }
            if self.shutting_down.load(Ordering::Acquire) {
                return Err(ApiError::conflict("the server is shutting down; try again later"));
            }
            // A run was created in the meantime, the last run is still leaving the queue, or another request deletes
            // the thread.
            sleep(RESERVE_RETRY).await;
        }
    }

    /// Deletes a thread that is reserved or whose last run is ending.
    pub(super) async fn remove_thread(&self, thread: Uuid) -> ApiResult<()> {
        let id = thread.to_string();
        self.graphs.checkpointer().delete_thread(&id).await?;
        self.database.delete_children::<Run>(&id)?;
        self.database.delete::<ThreadTtl>(&id)?;
        self.database.delete::<Thread>(&id)?;
        self.lock().forget_thread(thread);
        Ok(())
    }

    /// Stops all runs without marking them as ended, so that they resume when the server starts again.
    pub(in crate::langgraph) async fn shut_down(&self) {
        self.shutting_down.store(true, Ordering::Release);
        let active = self.active(None);
        active.iter().for_each(|it| it.control.cancel());
        for live in active.iter().filter(|it| it.has_started()) {
            live.buffer.closed().await;
        }
        self.unlock();
    }
}
