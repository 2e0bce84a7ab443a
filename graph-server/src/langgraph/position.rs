//! Positions in threads.

use graph_core::checkpoint::CheckpointId;

/// A graph of a thread, and one of its checkpoints.
#[derive(Debug, Clone)]
pub(super) struct Position {
    /// Namespace of a subgraph, or empty for the thread's own graph.
    pub(super) namespace: String,
    /// `None`: the newest checkpoint.
    pub(super) checkpoint: Option<CheckpointId>,
}

impl Position {
    /// The newest checkpoint of the thread's own graph.
    pub(super) const HEAD: Self = Self { namespace: String::new(), checkpoint: None };
}
