//! An in-memory store.
//!
//! Texts are embedded before the lock is taken, and all operations of a batch run under one lock. A failing embedder
//! therefore leaves no partial writes.

mod items;

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;

use crate::{
    store::{
        backend::Settings,
        batch::{Op, OpOutput},
        error::StoreError,
        index::IndexConfig,
        interface::Store,
        memory::items::ItemTable,
        ttl::TtlConfig,
    },
    sync::lock,
};

/// A store that keeps its items in memory, for tests and for programs that need no persistence.
///
/// Clones are cheap and share the items, but each clone has its own settings, so configure the store before cloning it.
/// A [`batch`](Store::batch) is atomic and embeds all its texts in one call.
///
/// ```
/// use graph_core::store::{InMemoryStore, Store};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), graph_core::store::StoreError> {
/// let store = InMemoryStore::new();
/// store.put(&["cities"], "paris", json!({"country": "France"})).await?;
/// assert!(store.clone().get(&["cities"], "paris").await?.is_some());
/// store.delete(&["cities"], "paris").await?;
/// assert!(store.get(&["cities"], "paris").await?.is_none());
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct InMemoryStore {
    settings: Settings,
    // A std mutex is enough, because the lock is never held across an await or while user code runs.
    items: Arc<Mutex<ItemTable>>,
}

impl InMemoryStore {
    /// Creates an empty store without an index or a default lifetime.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the index. Items written from now on are indexed and can be found by query.
    pub fn with_index(mut self, index: IndexConfig) -> Self {
        self.settings = self.settings.with_index(index);
        self
    }

    /// Sets the expiry rules. [`Put::ttl`](super::Put::ttl) works without these rules.
    pub fn with_ttl(mut self, ttl: TtlConfig) -> Self {
        self.settings = self.settings.with_ttl(ttl);
        self
    }

    /// Replaces the index, the expiry rules and the clock.
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }
}

#[async_trait]
impl Store for InMemoryStore {
    async fn sweep(&self) -> Result<usize, StoreError> {
        let context = self.settings.ttl_context();
        Ok(lock(&self.items).sweep(context))
    }

    async fn batch(&self, ops: Vec<Op>) -> Result<Vec<OpOutput>, StoreError> {
        let prepared = self.settings.prepare(ops).await?;
        let context = self.settings.ttl_context();
        let mut items = lock(&self.items);
        prepared.into_iter().map(|(op, vectors)| items.apply(op, vectors, context)).collect()
    }
}

impl fmt::Debug for InMemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemoryStore")
            .field("items", &lock(&self.items).len())
            .field("settings", &self.settings)
            .finish()
    }
}
