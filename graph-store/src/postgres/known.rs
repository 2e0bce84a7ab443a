//! What the next write needs to know, kept at hand so that it need not be asked for: the newest links of the
//! checkpoints that were put or read last, and numbers for new links.

use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use deadpool_postgres::PoolError;
use graph_core::checkpoint::{CheckpointId, Place};

use super::database::Postgres;
use crate::{
    chain::Tips,
    recent::{Recent, namespace_of},
};

/// How many numbers a block has: what the sequence grows by.
const BLOCK: i64 = 1_024;

/// The tips of one checkpoint of each namespace in use. The database checks them on every write, so that a
/// checkpoint which went and came again does no harm.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<Recent<(String, String), (CheckpointId, Arc<Tips>)>>);

impl Known {
    pub(super) fn get(&self, place: &Place, id: CheckpointId) -> Option<Arc<Tips>> {
        let known = self.lock();
        let (newest, tips) = known.get(&namespace_of(place))?;
        (*newest == id).then(|| tips.clone())
    }

    pub(super) fn insert(&self, place: &Place, tips: Arc<Tips>) {
        self.lock().insert(namespace_of(place), (place.id, tips));
    }

    pub(super) fn forget(&self, place: &Place) {
        self.lock().remove(&namespace_of(place));
    }

    fn lock(&self) -> MutexGuard<'_, Recent<(String, String), (CheckpointId, Arc<Tips>)>> {
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

    use super::Known;

    #[test]
    fn only_the_checkpoint_that_is_known_is_answered_for() {
        let known = Known::default();
        let (thread, namespace) = ("a".to_owned(), String::new());
        let place = Place { thread, namespace, id: CheckpointId::next() };
        known.insert(&place, Arc::default());
        assert!(known.get(&place, place.id).is_some());
        assert!(known.get(&place, CheckpointId::next()).is_none());
        known.forget(&place);
        assert!(known.get(&place, place.id).is_none());
    }
}
