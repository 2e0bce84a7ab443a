//! Creates threads without runs.

use super::{Manager, reservation::check_not_reserved};
use crate::langgraph::{
    document::to_row,
    error::{ApiError, ApiResult},
    records::Thread,
    storage::{ThreadChange, ThreadEntry},
};

impl Manager {
    /// Stores a new thread. If a thread with its id already exists, returns the existing thread unchanged. Fails if the
    /// client does not see the existing thread, or if it is being deleted.
    pub(in crate::langgraph) async fn create_thread(
        &self,
        thread: &Thread,
    ) -> ApiResult<Option<Thread>> {
        let (id, mut existing) = (thread.thread_id, None);
        let mut decide = |entry: ThreadEntry| {
            existing = self.locked_thread(id, &entry).map_err(|_| ApiError::id_in_use())?;
            if existing.is_some() {
                return Ok(ThreadChange::default());
            }
            check_not_reserved(id, &entry)?;
            let put = vec![to_row(thread, self.database.view().owner())?];
            Ok(ThreadChange { put, ..ThreadChange::default() })
        };
        self.queue.change_thread(id, &mut decide).await?;
        Ok(existing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::langgraph::{
        manager::test_records::{new_run, new_thread, open_manager},
        records::ThreadStatus,
        view::View,
    };

    #[tokio::test]
    async fn a_thread_that_was_created_in_the_meantime_is_not_replaced() {
        let manager = open_manager(":memory:");
        let thread = new_thread();
        manager.create(&new_run(thread.thread_id), thread.clone()).await.unwrap();
        let existing = manager.create_thread(&thread).await.unwrap().unwrap();
        assert_eq!(existing.status, ThreadStatus::Busy);
        assert_eq!(manager.thread(thread.thread_id).await.unwrap(), existing);
    }

    #[tokio::test]
    async fn a_thread_belongs_to_the_client_that_creates_it() {
        let manager = open_manager(":memory:");
        let (ada, bob) = (View::of_owner("ada"), View::of_owner("bob"));
        let (ada, bob) = (manager.with_view(ada), manager.with_view(bob));
        let thread = new_thread();
        assert_eq!(ada.create_thread(&thread).await.unwrap(), None);
        assert_eq!(bob.create_thread(&thread).await, Err(ApiError::id_in_use()));
        assert_eq!(ada.create_thread(&thread).await.unwrap(), Some(thread));
    }

    #[tokio::test]
    async fn a_thread_is_not_created_while_its_predecessor_is_being_deleted() {
        let manager = open_manager(":memory:");
        let thread = new_thread();
        let reservation = manager.reserve(thread.thread_id).await.unwrap().unwrap();
        assert!(manager.create_thread(&thread).await.is_err());
        reservation.release().await.unwrap();
        assert_eq!(manager.create_thread(&thread).await.unwrap(), None);
    }
}
