//! A map with a bounded number of entries, which retains the most recently written ones.

use std::{borrow::Borrow, collections::HashMap, hash::Hash};

use graph_core::checkpoint::CheckpointKey;

/// Maximum number of entries in each of the two generations, `younger` and `older`. When the younger generation is
/// full, it replaces the older one, so the map holds at most twice this number of entries.
const GENERATION_CAPACITY: usize = 1_000;

/// Returns the cache key of a namespace: the name of its thread and its own name.
pub(crate) fn namespace_key(checkpoint_key: &CheckpointKey) -> (String, String) {
    (checkpoint_key.thread.clone(), checkpoint_key.namespace.clone())
}

/// A map that retains recently inserted entries and evicts older ones.
#[derive(Debug)]
pub(crate) struct RecentMap<K, V> {
    younger: HashMap<K, V>,
    older: HashMap<K, V>,
}

impl<K, V> Default for RecentMap<K, V> {
    fn default() -> Self {
        Self { younger: HashMap::new(), older: HashMap::new() }
    }
}

impl<K: Eq + Hash, V> RecentMap<K, V> {
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.younger.get(key).or_else(|| self.older.get(key))
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.younger.len() >= GENERATION_CAPACITY && !self.younger.contains_key(&key) {
            self.older = std::mem::take(&mut self.younger);
        }
        self.younger.insert(key, value);
    }

    pub(crate) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.younger.remove(key);
        self.older.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::{GENERATION_CAPACITY, RecentMap};

    #[test]
    fn the_number_of_entries_is_bounded() {
        let mut recent = RecentMap::default();
        for number in 0..5 * GENERATION_CAPACITY {
            recent.insert(number, number);
        }
        let count = (0..5 * GENERATION_CAPACITY).filter(|it| recent.get(it).is_some()).count();
        assert!((GENERATION_CAPACITY..=2 * GENERATION_CAPACITY).contains(&count), "{count}");
        let last = 5 * GENERATION_CAPACITY - 1;
        assert_eq!(recent.get(&last), Some(&last));
        recent.remove(&last);
        assert_eq!(recent.get(&last), None);
    }

    #[test]
    fn the_newest_value_of_a_key_is_returned() {
        let mut recent = RecentMap::default();
        for value in 0..3 {
            recent.insert("same", value);
            for number in 0..GENERATION_CAPACITY {
                recent.insert(["other", "another"][number % 2], 0);
            }
        }
        assert_eq!(recent.get("same"), Some(&2));
    }
}
