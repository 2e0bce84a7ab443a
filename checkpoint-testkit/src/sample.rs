//! Checkpoints for tests.

use std::time::SystemTime;

use graph_core::checkpoint::{
    Change, CheckpointId, CheckpointKey, FrontierRecord, Header, NewCheckpoint, Source,
};

/// Builds the checkpoint that follows the head of a thread, in the root namespace.
pub fn next_checkpoint(
    thread: &str,
    head: Option<CheckpointId>,
    changes: Vec<(String, Change)>,
) -> NewCheckpoint {
    new_checkpoint(thread, CheckpointId::after(head), head, "run", changes)
}

/// Builds the checkpoint that follows the head of a thread, in the root namespace. `id` is its id, and `run` is the id
/// of the run that creates it.
pub fn new_checkpoint(
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
            version: 1,
            parents: Default::default(),
            metadata: Default::default(),
        },
        frontier: FrontierRecord::default(),
        changes,
    }
}
