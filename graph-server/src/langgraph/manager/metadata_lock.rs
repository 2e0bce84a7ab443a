//! Locks the metadata of threads while clients that see a thread because of its metadata access its checkpoints.

use std::sync::Arc;

use uuid::Uuid;

use super::{Manager, no_thread};
use crate::langgraph::{
    error::ApiResult,
    id::new_id,
    records::Thread,
    storage::{RunQueue, ThreadChange, ThreadEntry},
};

/// A lock on the metadata of a thread. Requests that change the metadata wait until the lock is dropped.
pub(in crate::langgraph) struct MetadataLock {
    queue: Arc<dyn RunQueue>,
    id: Uuid,
}

impl Drop for MetadataLock {
    fn drop(&mut self) {
        let (queue, id) = (self.queue.clone(), self.id);
        tokio::spawn(async move {
            if let Err(error) = queue.unlock_metadata(id).await {
                tracing::error!(%error, "cannot unlock the metadata of a thread");
            }
        });
    }
}

impl Manager {
    /// Locks the metadata of a thread if it determines whether the client sees the thread. Fails if the client does not
    /// see the thread.
    pub(in crate::langgraph) async fn lock_metadata(
        &self,
        thread: Uuid,
    ) -> ApiResult<Option<MetadataLock>> {
        if self.database.view().required::<Thread>().is_none() {
            return Ok(None);
        }
        let lock = MetadataLock { queue: self.queue.clone(), id: new_id() };
        let mut decide = |entry: ThreadEntry| {
            self.locked_thread(thread, &entry)?.ok_or_else(|| no_thread(thread))?;
            Ok(ThreadChange { lock_metadata: Some(lock.id), ..ThreadChange::default() })
        };
        self.queue.change_thread(thread, &mut decide).await?;
        Ok(Some(lock))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Map, Value, json};
    use tokio::time::timeout;

    use super::*;
    use crate::langgraph::{
        authorize::{Action, Resource},
        manager::test_records::open_manager,
        view::View,
    };
    #[cfg(feature = "postgres")]
    use crate::langgraph::{manager::test_records::manager_with, storage};

    fn team(name: &str) -> Map<String, Value> {
        Map::from_iter([("team".to_owned(), json!(name))])
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_cannot_be_moved_while_its_metadata_is_locked() {
        let manager = open_manager(":memory:");
        let thread = Thread::new(new_id(), team("east"));
        let id = thread.thread_id;
        manager.database.put(&thread).await.unwrap();
        let access = &[(Resource::Threads, Action::Update)];
        let client = manager.with_view(View::of_owner("ada").requiring(team("east"), access));
        let [first, second] =
            [client.lock_metadata(id).await.unwrap(), client.lock_metadata(id).await.unwrap()];
        assert!(first.is_some() && second.is_some());

        let mut moving = tokio::spawn({
            let manager = manager.clone();
            async move { manager.change_thread(id, |it| it.metadata = team("west")).await }
        });
        assert!(timeout(Duration::from_secs(10), &mut moving).await.is_err());
        // Changes that keep the metadata do not wait for the lock.
        manager.change_thread(id, |it| it.error = None).await.unwrap();
        drop(first);
        assert!(timeout(Duration::from_secs(10), &mut moving).await.is_err());
        drop(second);
        moving.await.unwrap().unwrap();
        assert!(client.lock_metadata(id).await.is_err());
    }

    #[tokio::test]
    async fn metadata_is_not_locked_for_clients_that_see_the_threads_of_their_owner() {
        let manager = open_manager(":memory:");
        let client = manager.with_view(View::of_owner("ada"));
        let thread = Thread::new(new_id(), team("east"));
        client.database.put(&thread).await.unwrap();
        assert!(client.lock_metadata(thread.thread_id).await.unwrap().is_none());
    }

    #[cfg(feature = "postgres")]
    #[tokio::test]
    async fn metadata_is_locked_for_all_replicas() {
        let Some(url) = graph_tests::postgres::fresh_database() else { return };
        let first = manager_with(storage::connect(&url).await.unwrap());
        let second = manager_with(storage::connect(&url).await.unwrap());
        let thread = Thread::new(new_id(), team("east"));
        let id = thread.thread_id;
        first.database.put(&thread).await.unwrap();
        let access = &[(Resource::Threads, Action::Update)];
        let client = first.with_view(View::of_owner("ada").requiring(team("east"), access));
        let lock = client.lock_metadata(id).await.unwrap();
        assert!(lock.is_some());
        let mut is_locked = false;
        let mut read = |entry: ThreadEntry| {
            is_locked = entry.metadata_locked;
            Ok(ThreadChange::default())
        };
        second.queue.change_thread(id, &mut read).await.unwrap();
        assert!(is_locked);
        drop(lock);
        second.change_thread(id, |it| it.metadata = team("west")).await.unwrap();
        assert!(client.lock_metadata(id).await.is_err());
    }
}
