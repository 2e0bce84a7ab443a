//! What the next write needs to know, kept at hand so that it need not be asked for: the newest links of the
//! checkpoints that were put or read last, and numbers for new links.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use deadpool_postgres::PoolError;
use graph_core::checkpoint::{CheckpointId, Place};

use super::database::Postgres;
use crate::chain::Tips;

/// How many namespaces are remembered, twice: the older half is forgotten at once when the younger is full.
const REMEMBERED: usize = 1_000;
/// How many numbers a block has: what the sequence grows by.
const BLOCK: i64 = 1_024;

type Namespace = (String, String);
type Newest = (CheckpointId, Arc<Tips>);

/// The tips of one checkpoint of each namespace in use. The database checks them on every write, so that a
/// checkpoint which went and came again does no harm.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<Halves>);

#[derive(Debug, Default)]
struct Halves {
    younger: HashMap<Namespace, Newest>,
    older: HashMap<Namespace, Newest>,
}

impl Known {
    pub(super) fn get(&self, place: &Place, id: CheckpointId) -> Option<Arc<Tips>> {
        let namespace = (place.thread.clone(), place.namespace.clone());
        let halves = self.lock();
        let newest = halves.younger.get(&namespace).or_else(|| halves.older.get(&namespace))?;
        (newest.0 == id).then(|| newest.1.clone())
    }

    pub(super) fn insert(&self, place: &Place, tips: Arc<Tips>) {
        let namespace = (place.thread.clone(), place.namespace.clone());
        let mut halves = self.lock();
        if halves.younger.len() >= REMEMBERED {
            halves.older = std::mem::take(&mut halves.younger);
        }
        halves.younger.insert(namespace, (place.id, tips));
    }

    pub(super) fn forget(&self, place: &Place) {
        let namespace = (place.thread.clone(), place.namespace.clone());
        let mut halves = self.lock();
        halves.younger.remove(&namespace);
        halves.older.remove(&namespace);
    }

    fn lock(&self) -> MutexGuard<'_, Halves> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Numbers for new links, taken from the database in blocks.
#[derive(Debug)]
pub(super) struct Numbers(
    // Tokio's mutex: one fetches a block, and who needs numbers meanwhile waits for it.
    tokio::sync::Mutex<Range<i64>>,
);

impl Numbers {
    pub(super) fn new() -> Self {
        Self(tokio::sync::Mutex::new(0..0))
    }

    pub(super) async fn take(
        &self,
        database: &Postgres,
        count: usize,
    ) -> Result<Vec<i64>, PoolError> {
        let mut numbers = Vec::with_capacity(count);
        if count == 0 {
            return Ok(numbers);
        }
        let mut block = self.0.lock().await;
        loop {
            numbers.extend(block.by_ref().take(count - numbers.len()));
            if numbers.len() == count {
                return Ok(numbers);
            }
            let rows = database.query("SELECT nextval('@.link_block')", &[]).await?;
            if let Some(first) = rows.first().map(|row| row.get::<_, i64>(0)) {
                *block = first..first + BLOCK;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use graph_core::checkpoint::{CheckpointId, Place};

    use super::{Known, REMEMBERED};

    fn place(thread: usize) -> Place {
        let (thread, namespace) = (thread.to_string(), String::new());
        Place { thread, namespace, id: CheckpointId::next() }
    }

    #[test]
    fn what_is_known_is_bounded() {
        let known = Known::default();
        let places: Vec<_> = (0..5 * REMEMBERED).map(place).collect();
        for place in &places {
            known.insert(place, Arc::default());
        }
        let count = places.iter().filter(|it| known.get(it, it.id).is_some()).count();
        assert!((REMEMBERED..=2 * REMEMBERED).contains(&count), "{count}");
        let last = &places[places.len() - 1];
        assert!(known.get(last, last.id).is_some());
        assert!(known.get(last, CheckpointId::next()).is_none());
        known.forget(last);
        assert!(known.get(last, last.id).is_none());
    }
}
