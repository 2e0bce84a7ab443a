//! Reserves threads that are being deleted or pruned, so that no run is created on them.

use std::sync::Arc;

use uuid::Uuid;

use super::Manager;
use crate::langgraph::{
    error::{ApiError, ApiResult},
    storage::{ThreadChange, ThreadEntry},
};

/// The reservation of a thread that is being deleted or pruned. While it exists, no run can be created on the thread.
pub(super) struct Reservation {
    manager: Arc<Manager>,
    thread: Uuid,
    is_released: bool,
}

impl Reservation {
    /// Allows runs on the thread again.
    pub(super) async fn release(mut self) -> ApiResult<()> {
        self.is_released = true;
        self.manager.queue.release_thread(self.thread).await
    }
}

impl Drop for Reservation {
    /// Releases the thread if the operation was cancelled or failed.
    fn drop(&mut self) {
        if !self.is_released {
            let (queue, thread) = (self.manager.queue.clone(), self.thread);
            tokio::spawn(async move {
                if let Err(error) = queue.release_thread(thread).await {
                    tracing::error!(%thread, %error, "cannot release a thread");
                }
            });
        }
    }
}

impl Manager {
    /// Reserves a thread, so that no run starts on it and its time to live does not change. Returns `None` if the
    /// thread has active runs or is already reserved. Fails if the client does not see the thread.
    pub(super) async fn reserve(self: &Arc<Self>, thread: Uuid) -> ApiResult<Option<Reservation>> {
        let mut reserve = false;
        let mut decide = |entry: ThreadEntry| {
            self.locked_thread(thread, &entry)?;
            reserve = entry.active.is_empty() && !entry.reserved;
            Ok(ThreadChange { reserve, ..ThreadChange::default() })
        };
        self.queue.change_thread(thread, &mut decide).await?;
        let new = || Reservation { manager: self.clone(), thread, is_released: false };
        Ok(reserve.then(new))
    }
}

/// Fails if a thread is being deleted or pruned.
pub(super) fn check_not_reserved(thread: Uuid, entry: &ThreadEntry) -> ApiResult<()> {
    match entry.reserved {
        true => Err(ApiError::conflict(format!(
            "thread {thread} is being deleted or pruned; try again when this is done"
        ))),
        false => Ok(()),
    }
}
