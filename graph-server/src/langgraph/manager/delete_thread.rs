//! Deletes threads.

use std::{collections::BTreeSet, sync::Arc};

use tokio::time::sleep;
use uuid::Uuid;

use super::{LOCK_RETRY, MAX_LOCK_RETRY, Manager};
use crate::langgraph::{
    cancellation::{CancelAction, Cancellation},
    error::{ApiError, ApiResult},
    records::{Run, Thread, ThreadTtl},
    storage::Notice,
    view::View,
};

impl Manager {
    /// Cancels the active runs of a thread, waits for their end, and deletes the thread. Fails if the client does not
    /// see the thread.
    pub(in crate::langgraph) async fn delete_thread(
        self: &Arc<Self>,
        thread: Uuid,
    ) -> ApiResult<()> {
        let cancellation = Cancellation::new(CancelAction::Interrupt, "the thread was deleted");
        let mut delay = LOCK_RETRY;
        // The deletion is complete, even if the client does not see all runs of the thread.
        let unrestricted = self.with_view(View::default());
        loop {
            if let Some(reservation) = self.reserve(thread).await? {
                unrestricted.remove_thread_with_events(thread).await?;
                return reservation.release().await;
            }
            for active in self.queue.active_runs(Some(thread)).await? {
                let cancelled = unrestricted.cancel(thread, active.run, cancellation.clone()).await;
                // A run that ended in the meantime needs no cancellation.
                if let Ok(live) = cancelled {
                    live.output().await;
                }
            }
            if self.is_shutting_down() {
                return Err(ApiError::conflict("the server is shutting down; try again later"));
            }
            // The last run is still leaving the queue, or another request deletes the thread.
            sleep(delay).await;
            delay = (delay * 2).min(MAX_LOCK_RETRY);
        }
    }

    /// Deletes a reserved thread and the events of its runs.
    pub(super) async fn remove_thread_with_events(&self, thread: Uuid) -> ApiResult<()> {
        self.remove_thread(thread).await?;
        self.event_log.delete_thread(thread).await
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
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::langgraph::{
        authorize::{Action, Resource},
        id::new_id,
        manager::test_records::{new_run, open_manager},
        records::TtlStrategy,
    };

    #[tokio::test]
    async fn a_thread_that_was_moved_after_the_access_check_is_not_changed() {
        let manager = open_manager(":memory:");
        let team = |name: &str| Map::from_iter([("team".to_owned(), json!(name))]);
        let access = &[(Resource::Threads, Action::Delete)];
        let client = manager.with_view(View::of_owner("ada").requiring(team("east"), access));
        let mut thread = Thread::new(new_id(), team("east"));
        let id = thread.thread_id;
        manager.database.put(&thread).await.unwrap();
        assert!(client.check_access(id).await.is_ok());

        thread.metadata = team("west");
        manager.database.put(&thread).await.unwrap();
        assert!(client.delete_thread(id).await.is_err());
        assert!(client.change_thread(id, |thread| thread.metadata = team("east")).await.is_err());
        assert!(client.create(&new_run(id), thread.clone()).await.is_err());
        let ttl = ThreadTtl {
            thread_id: id,
            strategy: TtlStrategy::Delete,
            ttl_minutes: 1.0,
            expires_at: chrono::DateTime::UNIX_EPOCH,
        };
        assert!(client.set_ttl(&ttl).await.is_err());
        assert_eq!(manager.thread(id).await.unwrap(), thread);
        assert_eq!(manager.database.get::<ThreadTtl>(&id.to_string()).await.unwrap(), None);
    }

    #[tokio::test]
    async fn runs_that_the_client_does_not_see_are_deleted_with_their_thread() {
        let manager = open_manager(":memory:");
        let entries = Map::from_iter([("team".to_owned(), json!("east"))]);
        let thread = Thread::new(new_id(), entries.clone());
        // The run has no metadata.
        let run = new_run(thread.thread_id);
        manager.create(&run, thread.clone()).await.unwrap();
        let access = &[(Resource::Threads, Action::Delete)];
        let client = manager.with_view(View::of_owner("ada").requiring(entries, access));
        client.delete_thread(thread.thread_id).await.unwrap();
        let run = manager.database.get::<Run>(&run.run_id.to_string()).await.unwrap();
        assert_eq!(run, None);
    }
}
