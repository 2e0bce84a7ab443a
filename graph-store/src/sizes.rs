//! Storage statistics, for dashboards.

use serde::Serialize;

/// Amount of stored data, either of one thread or of the whole database. For one thread, the numbers of items and
/// cached results are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Sizes {
    /// Number of threads that have a checkpoint.
    pub threads: u64,
    /// Number of checkpoints.
    pub checkpoints: u64,
    /// Total size of the headers, frontiers and field lists of checkpoints, in bytes.
    pub checkpoint_bytes: u64,
    /// Number of links. Each link holds changes to one field.
    pub links: u64,
    /// Total size of the links, in bytes.
    pub link_bytes: u64,
    /// Number of task records.
    pub records: u64,
    /// Total size of the task records, in bytes.
    pub record_bytes: u64,
    /// Number of items in long-term memory. Items do not belong to a thread.
    pub items: u64,
    /// Total size of the items and their vectors, in bytes.
    pub item_bytes: u64,
    /// Number of cached node results. Results without a lifetime stay in the cache until they are cleared.
    pub cached: u64,
    /// Total size of the cached results, in bytes.
    pub cached_bytes: u64,
}

impl Sizes {
    /// Returns the total size in bytes, excluding indexes and the overhead of the database.
    pub fn bytes(&self) -> u64 {
        let threads = self.checkpoint_bytes + self.link_bytes + self.record_bytes;
        threads + self.item_bytes + self.cached_bytes
    }
}
