//! Caches facts about the threads that were written to most recently, so that a put does not need to read them from
//! the file.
//!
//! The cache is valid as long as no other connection has committed to the file. One cheap query per transaction
//! checks this.

use std::sync::Arc;

use graph_core::checkpoint::{CheckpointId, CheckpointKey};
use hashlink::LruCache;
use rusqlite::Connection;

use crate::{
    chain::ChainTips,
    recent::{namespace_key, recent_map},
};

/// The cached state of a namespace.
#[derive(Clone, Debug)]
pub(super) struct NamespaceState {
    /// Id of the namespace's row.
    pub(super) id: i64,
    pub(super) newest: Option<NewestCheckpoint>,
}

/// The newest checkpoint in a namespace.
#[derive(Clone, Debug)]
pub(super) struct NewestCheckpoint {
    pub(super) id: CheckpointId,
    /// The chain tips of the checkpoint's fields. `None` if they could not be read.
    pub(super) tips: Option<Arc<ChainTips>>,
    /// The newest task record of the step that follows the checkpoint.
    pub(super) records: Option<i64>,
}

/// The cached state of recently written threads. The entries are valid for the current transaction.
#[derive(Debug)]
pub(super) struct ThreadCache {
    /// SQLite's counter of commits by other connections, as last read.
    data_version: Option<i64>,
    tokens: LruCache<String, i64>,
    namespaces: LruCache<(String, String), NamespaceState>,
    /// Whether there may be records that were stored before their checkpoint. `None` if this has not been read yet.
    has_early: Option<bool>,
}

impl Default for ThreadCache {
    fn default() -> Self {
        let (tokens, namespaces) = (recent_map(), recent_map());
        Self { data_version: None, tokens, namespaces, has_early: None }
    }
}

impl ThreadCache {
    /// Clears the cache if another connection has committed. Must be called at the start of a transaction.
    pub(super) fn validate(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let data_version = connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get::<_, i64>(0))?;
        if self.data_version != Some(data_version) {
            *self = Self { data_version: Some(data_version), ..Self::default() };
        }
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the token with which a thread is leased, if it is cached.
    pub(super) fn token(&self, thread: &str) -> Option<i64> {
        self.tokens.peek(thread).copied()
    }

    pub(super) fn set_token(&mut self, thread: &str, token: i64) {
        self.tokens.insert(thread.to_owned(), token);
    }

    pub(super) fn remove_token(&mut self, thread: &str) {
        self.tokens.remove(thread);
    }

    pub(super) fn namespace(&self, key: &CheckpointKey) -> Option<NamespaceState> {
        self.namespaces.peek(&namespace_key(key)).cloned()
    }

    pub(super) fn set_namespace(&mut self, key: &CheckpointKey, namespace: NamespaceState) {
        self.namespaces.insert(namespace_key(key), namespace);
    }

    /// Returns whether there may be records that were stored before their checkpoint.
    pub(super) fn has_early(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        if let Some(cached) = self.has_early {
            return Ok(cached);
        }
        let exists = connection
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM early)")?
            .query_row([], |row| row.get(0))?;
        self.has_early = Some(exists);
        Ok(exists)
    }

    /// Marks that a record was stored before its checkpoint.
    pub(super) fn mark_early(&mut self) {
        self.has_early = Some(true);
    }
}
