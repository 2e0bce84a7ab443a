//! Maps with a bounded number of entries, which retain the most recently written ones.

use std::hash::Hash;

use graph_core::checkpoint::CheckpointKey;
use hashlink::LruCache;

/// Creates an empty map that retains the 2,000 most recently written entries.
pub(crate) fn recent_map<K: Eq + Hash, V>() -> LruCache<K, V> {
    LruCache::new(2_000)
}

/// Returns the cache key of a namespace: the name of its thread and its own name.
pub(crate) fn namespace_key(checkpoint_key: &CheckpointKey) -> (String, String) {
    (checkpoint_key.thread.clone(), checkpoint_key.namespace.clone())
}
