//! The node cache in a SQLite file.

use std::{
    fmt,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use graph_core::cache::{Cache, CacheKey, CachedResult};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    Sqlite,
    failure::{DatabaseError, Failure},
};
use crate::{
    codec::{Codec, CodecError},
    error::OpenError,
    items::{CacheFailures, FailureCounter},
    time::{lifetime, nanos},
};

/// Maximum number of expired results that one `put` removes.
const PURGE: usize = 16;

/// Caches node results in a SQLite file, so that they survive restarts. Clones share the same file.
///
/// A result is looked up by the node's name and input, not by the node's code, so [`clear`](Cache::clear) the
/// results of a node whose code has changed. A failing cache does not fail a run; see [`failures`](Self::failures).
///
/// ```
/// use graph_core::{CachePolicy, NodeExt, START, State, StateGraph};
/// use graph_store::SqliteCache;
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
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("cache.db");
/// let cache = SqliteCache::open(path)?;
/// let graph = StateGraph::<Square>::new()
///     .node(square.cache(CachePolicy::new()))
///     .edge(START, square)
///     .cache(cache.clone())
///     .compile()?;
/// // The second run takes the result of `square` from the file.
/// for _ in 0..2 {
///     let state = graph.invoke(Square { number: 7, ..Square::default() }, ()).await?;
///     assert_eq!(state.result, 49);
/// }
/// assert_eq!(cache.failures().count, 0);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct SqliteCache {
    database: Sqlite,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    failures: FailureCounter,
}

impl SqliteCache {
    /// Opens a file with the default settings and creates it if it is missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Ok(Self::new(&Sqlite::open(path)?))
    }

    /// Creates a cache in an open database.
    pub fn new(database: &Sqlite) -> Self {
        let clock = Arc::new(SystemTime::now);
        Self { database: database.clone(), clock, failures: FailureCounter::default() }
    }

    /// Uses `clock` instead of the system clock.
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Returns the failures of this handle and its clones. Runs do not report these failures.
    pub fn failures(&self) -> CacheFailures {
        self.failures.get()
    }

    fn now(&self) -> i64 {
        nanos((self.clock)())
    }

    /// Returns the value of `result`. If it is an error, counts the failure and returns `None`.
    fn record_failure<T>(&self, result: Result<T, Failure<CodecError>>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(Failure::Rejected(error)) => self.failures.record(Err(error)),
            Err(Failure::Database(source)) => {
                self.failures.record(Err(DatabaseError::new(self.database.path(), source)))
            }
        }
    }
}

#[async_trait]
impl Cache for SqliteCache {
    async fn get(&self, key: &CacheKey) -> Option<CachedResult> {
        let (key, now, codec) = (key.clone(), self.now(), self.database.codec().clone());
        let found = self.database.read(move |connection| get(connection, &codec, &key, now)).await;
        self.record_failure(found)?
    }

    async fn put(&self, key: CacheKey, result: CachedResult, ttl: Option<Duration>) {
        let now = self.now();
        let expires_at = ttl.and_then(lifetime).map(|it| now.saturating_add(it));
        let what = || format!("a result of node `{}`", key.node);
        let body = self.database.codec().encode(what, &result);
        let Some(body) = self.failures.record(body) else { return };
        let put = self.database.write(move |connection| {
            put(connection, &key, expires_at, &body, now)?;
            Ok(())
        });
        self.record_failure(put.await);
    }

    async fn clear(&self, node: Option<&str>) {
        let node = node.map(str::to_owned);
        let cleared = self.database.write(move |connection| {
            let cleared = match node {
                Some(node) => connection.execute("DELETE FROM cached WHERE node = ?1", [node])?,
                None => connection.execute("DELETE FROM cached", [])?,
            };
            Ok(cleared)
        });
        self.record_failure(cleared.await);
    }
}

impl fmt::Debug for SqliteCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteCache")
            .field("database", &self.database)
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}

fn get(
    connection: &Connection,
    codec: &Codec,
    key: &CacheKey,
    now: i64,
) -> Result<Option<CachedResult>, Failure<CodecError>> {
    let body: Option<Vec<u8>> = connection
        .prepare_cached(
            "SELECT body FROM cached
             WHERE node = ?1 AND input = ?2 AND (expires_at IS NULL OR expires_at > ?3)",
        )?
        .query_row(params![key.node, key.input.to_bytes(), now], |row| row.get(0))
        .optional()?;
    let what = || format!("a result of node `{}`", key.node);
    Ok(body.map(|it| codec.decode(what, &it)).transpose()?)
}

fn put(
    connection: &Connection,
    key: &CacheKey,
    expires_at: Option<i64>,
    body: &[u8],
    now: i64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO cached (node, input, expires_at, body) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (node, input) DO UPDATE SET expires_at = ?3, body = ?4",
        )?
        .execute(params![key.node, key.input.to_bytes(), expires_at, body])?;
    connection
        .prepare_cached(
            "DELETE FROM cached WHERE id IN
                 (SELECT id FROM cached WHERE expires_at <= ?1 LIMIT ?2)",
        )?
        .execute(params![now, PURGE])?;
    Ok(())
}
