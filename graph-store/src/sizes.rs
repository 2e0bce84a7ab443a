//! Sizes: how much is stored, as numbers for a dashboard.

use serde::Serialize;

/// How much is stored: of all threads, with the items and results that lie beside them, or of one thread.
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
    /// How many items of long-term memory; none of them belongs to a thread.
    pub items: u64,
    /// These items with their vectors, in bytes.
    pub item_bytes: u64,
    /// How many results are cached. Those without a lifetime stay until they are cleared.
    pub cached: u64,
    /// These results, in bytes.
    pub cached_bytes: u64,
}

impl Sizes {
    /// All that is stored, in bytes; indexes and the database's own room come on top.
    pub fn bytes(&self) -> u64 {
        let threads = self.checkpoint_bytes + self.link_bytes + self.record_bytes;
        threads + self.item_bytes + self.cached_bytes
    }
}
