//! Releases the event feeds of threads when clients disconnect.

use std::sync::Arc;

use uuid::Uuid;

use crate::langgraph::manager::Manager;

/// When dropped, releases the event feed of a thread if it need not stay in memory.
pub(in crate::langgraph::routes) struct ReleaseFeed {
    pub(in crate::langgraph::routes) manager: Arc<Manager>,
    pub(in crate::langgraph::routes) thread: Uuid,
}

impl Drop for ReleaseFeed {
    fn drop(&mut self) {
        let (manager, thread) = (self.manager.clone(), self.thread);
        tokio::spawn(async move { manager.release_feed(thread).await });
    }
}
