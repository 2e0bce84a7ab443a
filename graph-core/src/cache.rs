//! The node cache, which lets a node reuse the result of an earlier task with the same input.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::Instant;

use crate::{
    checkpoint::{id::TaskId, record::GotoRecord},
    state::field::FieldWrite,
    sync::lock,
};

/// Stores task results by node and input.
///
/// Only nodes with a [`CachePolicy`](crate::CachePolicy) use the cache. Failures and interrupts are never cached.
///
/// This cache counts the hits of another cache:
///
/// ```
/// use std::{
///     sync::{
///         Arc,
///         atomic::{AtomicUsize, Ordering},
///     },
///     time::Duration,
/// };
///
/// use async_trait::async_trait;
/// use graph_core::{
///     CachePolicy, MemoryCache, NodeExt, START, State, StateGraph,
///     cache::{Cache, CacheKey, CachedResult},
/// };
///
/// #[derive(Debug, Default)]
/// struct CountingCache {
///     inner: MemoryCache,
///     hits: AtomicUsize,
/// }
///
/// #[async_trait]
/// impl Cache for CountingCache {
///     async fn get(&self, key: &CacheKey) -> Option<CachedResult> {
///         let result = self.inner.get(key).await?;
///         self.hits.fetch_add(1, Ordering::Relaxed);
///         Some(result)
///     }
///
///     async fn put(&self, key: CacheKey, result: CachedResult, ttl: Option<Duration>) {
///         self.inner.put(key, result, ttl).await;
///     }
///
///     async fn clear(&self, node: Option<&str>) {
///         self.inner.clear(node).await;
///     }
/// }
///
/// # #[derive(State, Clone, Debug, Default)]
/// # struct Square {
/// #     number: u64,
/// #     result: u64,
/// # }
/// # async fn square(state: &Square) -> SquareUpdate {
/// #     Square::update().result(state.number * state.number)
/// # }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cache = Arc::new(CountingCache::default());
/// let graph = StateGraph::<Square>::new()
///     .node(square.cache(CachePolicy::new()))
///     .edge(START, square)
///     .cache(cache.clone())
///     .compile()?;
/// for number in [7, 8, 7] {
///     graph.invoke(Square { number, ..Default::default() }, ()).await?;
/// }
/// assert_eq!(cache.hits.load(Ordering::Relaxed), 1);
/// # Ok(()) }
/// ```
#[async_trait]
pub trait Cache: Send + Sync + fmt::Debug {
    /// Returns the result stored under the key, unless it has expired.
    async fn get(&self, key: &CacheKey) -> Option<CachedResult>;

    /// Stores a result. The result expires after `ttl`, or never if `ttl` is `None`.
    async fn put(&self, key: CacheKey, result: CachedResult, ttl: Option<Duration>);

    /// Removes the results of one node, or of all nodes if `node` is `None`.
    async fn clear(&self, node: Option<&str>);
}

/// The key of a cached result.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CacheKey {
    /// Name of the node, or of the [journaled call](crate::Context::task_with).
    pub node: String,
    /// For a node, a hash of the graph's name, the graph's namespace within the run, and the node's input. For a
    /// journaled call, a hash of the path of its function, its name and its key.
    pub input: TaskId,
}

/// The result of a finished task.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CachedResult {
    /// The task's writes, in order.
    pub writes: Vec<FieldWrite>,
    /// The targets that the task's routes and commands chose.
    pub gotos: Vec<GotoRecord>,
}

/// An in-memory cache. Clones share the same results.
///
/// ```
/// use graph_core::{CachePolicy, MemoryCache, NodeExt, START, State, StateGraph};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Square {
///     number: u64,
///     result: u64,
/// }
///
/// async fn square(state: &Square) -> SquareUpdate {
///     Square::update().result(state.number * state.number)
/// }
///
/// # fn main() -> Result<(), graph_core::BuildError> {
/// let graph = StateGraph::<Square>::new()
///     .node(square.cache(CachePolicy::new()))
///     .edge(START, square)
///     .cache(MemoryCache::new())
///     .compile()?;
/// # let _ = graph;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryCache {
    results: Arc<Mutex<BTreeMap<CacheKey, (CachedResult, Option<Instant>)>>>,
}

impl MemoryCache {
    /// Creates an empty cache.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl Cache for MemoryCache {
    async fn get(&self, key: &CacheKey) -> Option<CachedResult> {
        let mut results = lock(&self.results);
        let (result, expires_at) = results.get(key)?;
        if expires_at.is_some_and(|it| it <= Instant::now()) {
            results.remove(key);
            return None;
        }
        Some(result.clone())
    }

    async fn put(&self, key: CacheKey, result: CachedResult, ttl: Option<Duration>) {
        // If the expiry time overflows `Instant`, the result never expires.
        let expires_at = ttl.and_then(|it| Instant::now().checked_add(it));
        lock(&self.results).insert(key, (result, expires_at));
    }

    async fn clear(&self, node: Option<&str>) {
        lock(&self.results).retain(|key, _| node.is_some_and(|it| it != key.node));
    }
}
