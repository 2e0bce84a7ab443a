//! Releases the event feeds of threads that were never created.

use std::sync::Arc;

use uuid::Uuid;

use crate::langgraph::manager::Manager;

/// When dropped, releases the event feed of a thread that was never created.
pub(super) struct ReleaseFeed {
    pub(super) manager: Arc<Manager>,
    pub(super) thread: Uuid,
}

impl Drop for ReleaseFeed {
    fn drop(&mut self) {
        let (manager, thread) = (self.manager.clone(), self.thread);
        tokio::spawn(async move { manager.release_feed(thread).await });
    }
}
