//! What every store has besides its items, for those who write one.
//!
//! [`Settings`] are what a handle knows: the index, the lifetimes and the clock. [`Moment`] is the time of an
//! operation and what it means for items; [`Ranking`] makes the page of a search out of the items found.
//! [`ListNamespaces`](super::ListNamespaces) has its own part of this.
//!
//! Texts are embedded before a store touches its items, all of a batch in one call: a failing embedder then
//! leaves nothing half-written, and no lock or transaction waits for it.

mod ranking;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

pub use self::ranking::Ranking;
use super::{IndexConfig, Op, Search, StoreError, TtlConfig};

/// What the handle of a store knows: what is indexed, how items expire, and what time it is.
///
/// Cloning it is cheap.
#[derive(Clone)]
pub struct Settings {
    index: Option<Arc<IndexConfig>>,
    ttl: TtlConfig,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

impl Settings {
    /// No index, no default lifetime, and the system's clock.
    pub fn new() -> Self {
        Self { index: None, ttl: TtlConfig::default(), clock: Arc::new(SystemTime::now) }
    }

    /// Indexes what is put from now on, so that a search can have a query.
    pub fn with_index(mut self, index: IndexConfig) -> Self {
        self.index = Some(Arc::new(index));
        self
    }

    /// Sets how items expire.
    pub fn with_ttl(mut self, ttl: TtlConfig) -> Self {
        self.ttl = ttl;
        self
    }

    /// Reads the time from `clock` instead of the system's.
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Asks the clock.
    pub fn moment(&self) -> Moment {
        Moment { now: (self.clock)(), ttl: self.ttl }
    }

    /// Checks the operations and embeds all their texts in one call.
    ///
    /// Each operation comes back with its vectors: those of a put's texts, or that of a search's query.
    /// What comes back can only fail for reasons of the back end.
    pub async fn prepare(&self, ops: Vec<Op>) -> Result<Vec<(Op, Vec<Vec<f32>>)>, StoreError> {
        let texts = ops.iter().map(|it| self.texts(it)).collect::<Result<Vec<_>, _>>()?;
        let mut vectors = match &self.index {
            Some(index) => index.embed(&texts.concat()).await?.into_iter(),
            None => Vec::new().into_iter(),
        };
        let prepared = ops.into_iter().zip(texts);
        Ok(prepared.map(|(op, texts)| (op, vectors.by_ref().take(texts.len()).collect())).collect())
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

/// The time of an operation, and what it means for the items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time.
    pub now: SystemTime,
    /// How items expire.
    pub ttl: TtlConfig,
}

impl Moment {
    /// Tells whether an item that lives until then has expired.
    pub fn is_past(self, expires_at: Option<SystemTime>) -> bool {
        expires_at.is_some_and(|it| it <= self.now)
    }

    /// Tells whether reads show an item that lives until then.
    pub fn shows(self, expires_at: Option<SystemTime>) -> bool {
        !(self.ttl.omit_expired && self.is_past(expires_at))
    }

    /// Gives the end of a lifetime that starts now; one beyond the end of time is no end.
    pub fn after(self, lifetime: Option<Duration>) -> Option<SystemTime> {
        self.now.checked_add(lifetime?)
    }

    /// Tells whether a read that asks so starts the time of an item anew.
    pub fn refreshes(self, asked: Option<bool>) -> bool {
        asked.unwrap_or(self.ttl.refresh_on_read)
    }
}
