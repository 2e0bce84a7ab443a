//! The storage of the API.

use std::sync::Arc;

use super::{
    documents::Documents,
    queue::RunQueue,
    shared_events::{EventLog, SharedEvents},
};

/// The storage of the API: documents, the run queue and events.
#[derive(Debug, Clone)]
pub(in crate::langgraph) struct Storage {
    pub(in crate::langgraph) documents: Arc<dyn Documents>,
    pub(in crate::langgraph) queue: Arc<dyn RunQueue>,
    pub(in crate::langgraph) event_log: Arc<dyn EventLog>,
    /// `None` if no other process uses the storage.
    pub(in crate::langgraph) shared_events: Option<Arc<dyn SharedEvents>>,
}
