//! What was used last.

use std::{borrow::Borrow, collections::HashMap, hash::Hash};

use graph_core::checkpoint::Place;

/// How much is remembered, twice: the older half is forgotten at once when the younger is full.
const REMEMBERED: usize = 1_000;

/// What a namespace is remembered by: its thread and its name.
pub(crate) fn namespace_of(place: &Place) -> (String, String) {
    (place.thread.clone(), place.namespace.clone())
}

/// A map that remembers what was put into it last, and forgets the rest.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    younger: HashMap<K, V>,
    older: HashMap<K, V>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { younger: HashMap::new(), older: HashMap::new() }
    }
}

impl<K: Eq + Hash, V> Recent<K, V> {
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.younger.get(key).or_else(|| self.older.get(key))
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.younger.len() >= REMEMBERED && !self.younger.contains_key(&key) {
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
    use super::{REMEMBERED, Recent};

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut recent = Recent::default();
        for number in 0..5 * REMEMBERED {
            recent.insert(number, number);
        }
        let count = (0..5 * REMEMBERED).filter(|it| recent.get(it).is_some()).count();
        assert!((REMEMBERED..=2 * REMEMBERED).contains(&count), "{count}");
        let last = 5 * REMEMBERED - 1;
        assert_eq!(recent.get(&last), Some(&last));
        recent.remove(&last);
        assert_eq!(recent.get(&last), None);
    }

    #[test]
    fn the_newest_value_counts() {
        let mut recent = Recent::default();
        for value in 0..3 {
            recent.insert("same", value);
            for number in 0..REMEMBERED {
                recent.insert(["other", "another"][number % 2], 0);
            }
        }
        assert_eq!(recent.get("same"), Some(&2));
    }
}
