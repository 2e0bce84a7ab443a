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

use self::shelves::{Moment, Shelves};
use super::{
    Address, Get, IndexConfig, Item, ListNamespaces, Namespace, Op, Outcome, Put, Search, Store,
    StoreError, TtlConfig,
};

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
#[derive(Clone)]
pub struct InMemoryStore {
    index: Option<Arc<IndexConfig>>,
    ttl: TtlConfig,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    // A std lock: it is held for one operation, never over an await or a user's code.
    shelves: Arc<Mutex<Shelves>>,
}

impl InMemoryStore {
    /// Makes an empty store without index or default lifetime.
    pub fn new() -> Self {
        Self {
            index: None,
            ttl: TtlConfig::default(),
            clock: Arc::new(SystemTime::now),
            shelves: Arc::default(),
        }
    }

    /// Indexes what is put from now on, so that a search can have a query.
    pub fn with_index(mut self, index: IndexConfig) -> Self {
        self.index = Some(Arc::new(index));
        self
    }

    /// Sets how items expire; [`Put::ttl`] works without it.
    pub fn with_ttl(mut self, ttl: TtlConfig) -> Self {
        self.ttl = ttl;
        self
    }

    /// Reads the time from `clock` instead of the system's.
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    fn moment(&self) -> Moment {
        Moment { now: (self.clock)(), ttl: self.ttl }
    }

    fn lock(&self) -> MutexGuard<'_, Shelves> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the texts an operation needs vectors of, and finds all that is wrong with it.
    fn texts(&self, op: &Op) -> Result<Vec<String>, StoreError> {
        match op {
            Op::Put(put) => Ok(self.index.as_ref().map_or_else(Vec::new, |it| it.texts(put))),
            Op::Search(search) => self.query(search),
            Op::List(list) => list.page().and(list.depth()).map(|_| Vec::new()),
            Op::Get(_) | Op::Delete(_) => Ok(Vec::new()),
        }
    }

    fn query(&self, search: &Search) -> Result<Vec<String>, StoreError> {
        search.page()?;
        match &search.query {
            Some(query) if self.index.is_none() => {
                Err(StoreError::NoIndex { query: query.clone() })
            }
            query => Ok(query.iter().cloned().collect()),
        }
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, StoreError> {
        match &self.index {
            Some(index) => index.embed(texts).await,
            None => Ok(Vec::new()),
        }
    }
}

#[async_trait]
impl Store for InMemoryStore {
    async fn put_item(&self, put: Put) -> Result<(), StoreError> {
        self.batch(vec![Op::Put(put)]).await.map(|_| ())
    }

    async fn get_item(&self, get: Get) -> Result<Option<Item>, StoreError> {
        let moment = self.moment();
        Ok(self.lock().get(&get, moment))
    }

    async fn delete_item(&self, at: Address) -> Result<(), StoreError> {
        self.lock().remove(&at);
        Ok(())
    }

    async fn search(&self, search: Search) -> Result<Vec<Item>, StoreError> {
        let vectors = self.embed(&self.query(&search)?).await?;
        let moment = self.moment();
        self.lock().search(&search, vectors.first(), moment)
    }

    async fn list_namespaces(&self, list: ListNamespaces) -> Result<Vec<Namespace>, StoreError> {
        let moment = self.moment();
        self.lock().list(&list, moment)
    }

    async fn sweep(&self) -> Result<usize, StoreError> {
        let moment = self.moment();
        Ok(self.lock().sweep(moment))
    }

    async fn batch(&self, ops: Vec<Op>) -> Result<Vec<Outcome>, StoreError> {
        let texts = ops.iter().map(|it| self.texts(it)).collect::<Result<Vec<_>, _>>()?;
        let mut vectors = self.embed(&texts.concat()).await?.into_iter();
        let moment = self.moment();
        let mut shelves = self.lock();
        let apply = |(op, texts): (Op, Vec<String>)| {
            shelves.apply(op, vectors.by_ref().take(texts.len()).collect(), moment)
        };
        ops.into_iter().zip(texts).map(apply).collect()
    }
}

impl Default for InMemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for InMemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemoryStore")
            .field("items", &self.lock().len())
            .field("index", &self.index)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}
