//! Sizes: how much is stored, as numbers for a dashboard.

use serde::Serialize;

/// How much is stored of all threads, or of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Sizes {
    /// How many threads have a checkpoint.
    pub threads: u64,
    /// How many checkpoints.
    pub checkpoints: u64,
    /// Their headers and cursors, in bytes.
    pub checkpoint_bytes: u64,
    /// How many changes of fields, snapshots included.
    pub links: u64,
    /// These changes, in bytes.
    pub link_bytes: u64,
    /// How many records of tasks.
    pub records: u64,
    /// These records, in bytes.
    pub record_bytes: u64,
}

impl Sizes {
    /// All that is stored, in bytes; indexes and the database's own room come on top.
    pub fn bytes(&self) -> u64 {
        self.checkpoint_bytes + self.link_bytes + self.record_bytes
    }
}
