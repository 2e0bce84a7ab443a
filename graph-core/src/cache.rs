//! The node cache: results of finished tasks, to be taken again for equal inputs.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::Instant;

use crate::{
    checkpoint::{GotoRecord, TaskId},
    context::lock,
    state::FieldWrite,
};

/// Keeps what tasks came to, by node and input.
///
/// Only nodes with a [`CachePolicy`](crate::CachePolicy) use it; failures and questions are never kept.
#[async_trait]
pub trait Cache: Send + Sync + fmt::Debug {
    /// What was kept under the key, unless it has expired.
    async fn get(&self, key: &CacheKey) -> Option<Cached>;

    /// Keeps a result, for ever or for so long.
    async fn put(&self, key: CacheKey, result: Cached, ttl: Option<Duration>);

    /// Forgets the results of a node, or of all nodes.
    async fn clear(&self, node: Option<&str>);
}

/// The name of a result: its node, and a hash of what the node ran on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CacheKey {
    /// The node.
    pub node: String,
    /// The input's hash.
    pub input: TaskId,
}

/// A finished task's result: what it wrote and where it went.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Cached {
    /// The fields written, in order.
    pub writes: Vec<FieldWrite>,
    /// Where routes and commands led.
    pub gotos: Vec<GotoRecord>,
}

/// Keeps results in memory. Cloning gives another handle to the same results.
#[derive(Clone, Debug, Default)]
pub struct MemoryCache {
    results: Arc<Mutex<BTreeMap<CacheKey, (Cached, Option<Instant>)>>>,
}

impl MemoryCache {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl Cache for MemoryCache {
    async fn get(&self, key: &CacheKey) -> Option<Cached> {
        let mut results = lock(&self.results);
        let (result, until) = results.get(key)?;
        if until.is_some_and(|it| it <= Instant::now()) {
            results.remove(key);
            return None;
        }
        Some(result.clone())
    }

    async fn put(&self, key: CacheKey, result: Cached, ttl: Option<Duration>) {
        // A time that is too far away to be told never comes.
        let until = ttl.and_then(|it| Instant::now().checked_add(it));
        lock(&self.results).insert(key, (result, until));
    }

    async fn clear(&self, node: Option<&str>) {
        lock(&self.results).retain(|key, _| node.is_some_and(|it| it != key.node));
    }
}
