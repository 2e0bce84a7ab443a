//! Building blocks for implementing a [`Store`](super::Store).
//!
//! [`Settings`] holds a store's index, expiry rules and clock. [`TtlContext`] decides which items have expired at the
//! time of an operation. [`Ranking`] sorts and pages the hits of a search; for listings,
//! [`ListNamespaces::select_page`](super::ListNamespaces::select_page) does the same.
//!
//! [`Settings::prepare`] embeds all texts of a batch in one call before the store accesses its items. A failing
//! embedder therefore leaves no partial writes, and no lock or transaction is held while the embedder
//! runs.

mod ranking;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::store::{
    batch::Op, error::StoreError, index::IndexConfig, query::Search, ttl::TtlConfig,
};

pub use self::ranking::Ranking;

/// The settings of a store: index, expiry rules and clock. Cheap to clone.
#[derive(Clone)]
pub struct Settings {
    index: Option<Arc<IndexConfig>>,
    ttl: TtlConfig,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

impl Settings {
    /// Creates settings that use the system clock and have no index and no default lifetime.
    pub fn new() -> Self {
        Self { index: None, ttl: TtlConfig::default(), clock: Arc::new(SystemTime::now) }
    }

    /// Sets the index. Items written from now on are indexed and can be found by query.
    pub fn with_index(mut self, index: IndexConfig) -> Self {
        self.index = Some(Arc::new(index));
        self
    }

    /// Sets the expiry rules.
    pub fn with_ttl(mut self, ttl: TtlConfig) -> Self {
        self.ttl = ttl;
        self
    }

    /// Replaces the system clock, for tests.
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Reads the clock and returns the context for one operation.
    pub fn ttl_context(&self) -> TtlContext {
        TtlContext { now: (self.clock)(), ttl: self.ttl }
    }

    /// Validates the operations and embeds all their texts in one call.
    ///
    /// Returns each operation with its vectors: one per indexed text of a put, one for the query of a search, and none
    /// otherwise. The returned operations can fail only because of the back end.
    pub async fn prepare(&self, ops: Vec<Op>) -> Result<Vec<(Op, Vec<Vec<f32>>)>, StoreError> {
        let texts = ops.iter().map(|it| self.texts(it)).collect::<Result<Vec<_>, _>>()?;
        let mut vectors = match &self.index {
            Some(index) => index.embed(&texts.concat()).await?.into_iter(),
            None => Vec::new().into_iter(),
        };
        let prepared = ops.into_iter().zip(texts);
        Ok(prepared.map(|(op, texts)| (op, vectors.by_ref().take(texts.len()).collect())).collect())
    }

    /// Validates an operation and returns the texts to embed for it.
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
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("index", &self.index)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}

/// The current time together with the expiry rules, for one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlContext {
    /// Time of the operation.
    pub now: SystemTime,
    /// Expiry rules of the store.
    pub ttl: TtlConfig,
}

impl TtlContext {
    /// Returns whether an item with this expiry time has expired. An item with `None` never expires.
    pub fn is_expired(self, expires_at: Option<SystemTime>) -> bool {
        expires_at.is_some_and(|it| it <= self.now)
    }

    /// Returns whether reads include an item with this expiry time.
    pub fn is_visible(self, expires_at: Option<SystemTime>) -> bool {
        !(self.ttl.omit_expired && self.is_expired(expires_at))
    }

    /// Returns the expiry time of an item whose lifetime starts now. Returns `None` if the item never expires, because
    /// `lifetime` is `None` or the expiry time overflows.
    pub fn expires_at(self, lifetime: Option<Duration>) -> Option<SystemTime> {
        self.now.checked_add(lifetime?)
    }

    /// Returns whether a read restarts the lifetime of an item. `requested` overrides the store's default.
    pub fn should_refresh(self, requested: Option<bool>) -> bool {
        requested.unwrap_or(self.ttl.refresh_on_read)
    }
}
