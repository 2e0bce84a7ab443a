//! Builds checkpoints for tests.

use std::time::SystemTime;

use graph_core::checkpoint::{
    Change, CheckpointId, CheckpointKey, FrontierRecord, Header, NewCheckpoint, Source,
};

/// Returns a checkpoint that follows the thread's current head.
pub(crate) fn new_checkpoint(
    thread: &str,
    id: CheckpointId,
    head: Option<CheckpointId>,
    run: &str,
    changes: Vec<(String, Change)>,
) -> NewCheckpoint {
    NewCheckpoint {
        key: CheckpointKey { thread: thread.to_owned(), namespace: String::new(), id },
        expected_head: head,
        base: head,
        header: Header {
            parent: head,
            origin: id,
            step: 0,
            source: Source::Loop,
            created_at: SystemTime::UNIX_EPOCH,
            run: run.to_owned(),
            version: 0,
            parents: Default::default(),
            metadata: Default::default(),
        },
        frontier: FrontierRecord::default(),
        changes,
    }
}
