//! Releases the events of threads that were never created.

use std::sync::Arc;

use uuid::Uuid;

use crate::langgraph::manager::Manager;

/// Releases the events of a thread that was never created when it is dropped.
pub(super) struct ReleaseFeed {
    pub(super) manager: Arc<Manager>,
    pub(super) thread: Uuid,
}

impl Drop for ReleaseFeed {
    fn drop(&mut self) {
        self.manager.release_feed(self.thread);
    }
}
