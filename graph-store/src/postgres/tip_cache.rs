//! Caches data that the next write needs, in order to save round trips: the chain tips of checkpoints that were
//! recently written or read, and ids for new links.

use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use deadpool_postgres::PoolError;
use graph_core::checkpoint::{CheckpointId, CheckpointKey};
use hashlink::LruCache;

use super::database::Postgres;
use crate::{
    chain::ChainTips,
    recent::{namespace_key, recent_map},
};

/// Number of ids in a block. It must equal the increment of the database sequence `link_block`.
const BLOCK_IDS: i64 = 1_024;

/// The chain tips of one checkpoint per active namespace. The database verifies the tips on every write, so a stale
/// entry is harmless, for example after a checkpoint was deleted and stored again.
#[derive(Debug)]
pub(super) struct TipCache(Mutex<Tips>);

type Tips = LruCache<(String, String), (CheckpointId, Arc<ChainTips>)>;

impl Default for TipCache {
    fn default() -> Self {
        Self(Mutex::new(recent_map()))
    }
}

impl TipCache {
    pub(super) fn get(&self, key: &CheckpointKey, id: CheckpointId) -> Option<Arc<ChainTips>> {
        let cache = self.lock();
        let (newest, tips) = cache.peek(&namespace_key(key))?;
        (*newest == id).then(|| tips.clone())
    }

    pub(super) fn insert(&self, key: &CheckpointKey, tips: Arc<ChainTips>) {
        self.lock().insert(namespace_key(key), (key.id, tips));
    }

    pub(super) fn remove(&self, key: &CheckpointKey) {
        self.lock().remove(&namespace_key(key));
    }

    fn lock(&self) -> MutexGuard<'_, Tips> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ids for new links. The database allocates them in blocks.
#[derive(Debug)]
pub(super) struct LinkIds(
    // A tokio mutex, because one caller fetches a block while the others wait for it.
    tokio::sync::Mutex<Range<i64>>,
);

impl LinkIds {
    pub(super) fn new() -> Self {
        Self(tokio::sync::Mutex::new(0..0))
    }

    pub(super) async fn take(
        &self,
        database: &Postgres,
        count: usize,
    ) -> Result<Vec<i64>, PoolError> {
        let mut ids = Vec::with_capacity(count);
        if count == 0 {
            return Ok(ids);
        }
        let mut block = self.0.lock().await;
        loop {
            ids.extend(block.by_ref().take(count - ids.len()));
            if ids.len() == count {
                return Ok(ids);
            }
            let rows = database.query("SELECT nextval('@.link_block')", &[]).await?;
            if let Some(first) = rows.first().map(|row| row.get::<_, i64>(0)) {
                *block = first..first + BLOCK_IDS;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use graph_core::checkpoint::{CheckpointId, CheckpointKey};

    use super::TipCache;

    #[test]
    fn only_the_tips_of_the_cached_checkpoint_are_returned() {
        let cache = TipCache::default();
        let (thread, namespace) = ("a".to_owned(), String::new());
        let key = CheckpointKey { thread, namespace, id: CheckpointId::next() };
        cache.insert(&key, Arc::default());
        assert!(cache.get(&key, key.id).is_some());
        assert!(cache.get(&key, CheckpointId::next()).is_none());
        cache.remove(&key);
        assert!(cache.get(&key, key.id).is_none());
    }
}
