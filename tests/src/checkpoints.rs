//! Builds checkpoints for tests of savers.

use std::time::SystemTime;

use graph_core::checkpoint::{
    Change, CheckpointId, CheckpointKey, FrontierRecord, Header, NewCheckpoint, Source,
};

/// Builds the checkpoint that follows the head of a thread.
pub fn next_checkpoint(
    thread: &str,
    head: Option<CheckpointId>,
    changes: Vec<(String, Change)>,
) -> NewCheckpoint {
    let id = CheckpointId::after(head);
    NewCheckpoint {
        key: CheckpointKey { thread: thread.to_owned(), namespace: String::new(), id },
        expected_head: head,
        base: head,
        header: Header {
            parent: head,
            origin: id,
            step: 0,
            source: Source::Loop,
            created_at: SystemTime::now(),
            run: "run".to_owned(),
            version: 1,
            parents: [].into(),
            metadata: serde_json::Map::new(),
        },
        frontier: FrontierRecord::default(),
        changes,
    }
}
