//! The store that lives in memory.
//!
//! Texts are embedded first, without the lock; then all is written under one lock.
//! So a failing embedder leaves nothing half-written.

mod shelves;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use async_trait::async_trait;

use self::shelves::Shelves;
use super::{IndexConfig, Op, Outcome, Store, StoreError, TtlConfig, backend::Settings};

/// Keeps items in memory, for tests and for programs that need no more.
///
/// It is a handle: clones are cheap and share the items.
/// The settings belong to the handle, so set them before the first clone.
/// A [`batch`](Store::batch) embeds all its texts in one call and is done whole or not at all.
///
/// ```
/// use graph_core::store::{InMemoryStore, Store};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), graph_core::store::StoreError> {
/// let store = InMemoryStore::new();
/// store.put(&["cities"], "paris", json!({"country": "France"})).await?;
/// assert!(store.clone().get(&["cities"], "paris").await?.is_some());
/// store.delete(&["cities"], "paris").await?;
/// assert!(store.get(&["cities"], "paris").await?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct InMemoryStore {
    settings: Settings,
    // A std lock: it is held for one operation, never over an await or a user's code.
    shelves: Arc<Mutex<Shelves>>,
}

impl InMemoryStore {
    /// Makes an empty store without index or default lifetime.
    pub fn new() -> Self {
        Self::default()
    }

    /// Indexes what is put from now on, so that a search can have a query.
    pub fn with_index(mut self, index: IndexConfig) -> Self {
        self.settings = self.settings.with_index(index);
        self
    }

    /// Sets how items expire; [`Put::ttl`](super::Put::ttl) works without it.
    pub fn with_ttl(mut self, ttl: TtlConfig) -> Self {
        self.settings = self.settings.with_ttl(ttl);
        self
    }

    /// Reads the time from `clock` instead of the system's.
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.settings = self.settings.with_clock(clock);
        self
    }

    /// Takes the index, the lifetimes and the clock from these settings.
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    fn lock(&self) -> MutexGuard<'_, Shelves> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for InMemoryStore {
    async fn sweep(&self) -> Result<usize, StoreError> {
        let moment = self.settings.moment();
        Ok(self.lock().sweep(moment))
    }

    async fn batch(&self, ops: Vec<Op>) -> Result<Vec<Outcome>, StoreError> {
        let prepared = self.settings.prepare(ops).await?;
        let moment = self.settings.moment();
        let mut shelves = self.lock();
        prepared.into_iter().map(|(op, vectors)| shelves.apply(op, vectors, moment)).collect()
    }
}

impl fmt::Debug for InMemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemoryStore")
            .field("items", &self.lock().len())
            .field("settings", &self.settings)
            .finish()
    }
}
