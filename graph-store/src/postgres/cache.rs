//! The node cache on a PostgreSQL server.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use graph_core::cache::{Cache, CacheKey, CachedResult};
use tokio_postgres::{Row, types::ToSql};

use super::database::Postgres;
use crate::items::{CacheFailures, FailureCounter};
use crate::time::{lifetime, nanos};

/// Maximum number of expired results that one `put` removes.
const PURGE: i64 = 16;

/// Caches node results on a PostgreSQL server, for all machines that share the server. Clones share the same
/// database.
///
/// A result is looked up by the node's name and input, not by the node's code, so [`clear`](Cache::clear) the
/// results of a node whose code has changed. A failing cache does not fail a run, and statements are not retried if
/// the connection is lost; see [`failures`](Self::failures).
///
/// ```no_run
/// use graph_core::{CachePolicy, NodeExt, START, State, StateGraph};
/// use graph_store::{Postgres, PostgresCache};
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
/// let database = Postgres::connect("postgresql://graphs:secret@db.example.org/graphs").await?;
/// let cache = PostgresCache::new(&database);
/// let graph = StateGraph::<Square>::new()
///     .node(square.cache(CachePolicy::new()))
///     .edge(START, square)
///     .cache(cache.clone())
///     .compile()?;
/// graph.invoke(Square { number: 7, ..Square::default() }, ()).await?;
/// assert_eq!(cache.failures().count, 0);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct PostgresCache {
    database: Postgres,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    failures: FailureCounter,
}

impl PostgresCache {
    /// Creates a cache in an open database.
    pub fn new(database: &Postgres) -> Self {
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

    /// Executes a statement once. If it fails, counts the failure and returns `None`.
    async fn query(&self, statement: &str, params: &[&(dyn ToSql + Sync)]) -> Option<Vec<Row>> {
        let rows = self.database.query_once(statement, params).await;
        self.failures.record(rows.map_err(|it| self.database.database_error(it)))
    }
}

#[async_trait]
impl Cache for PostgresCache {
    async fn get(&self, key: &CacheKey) -> Option<CachedResult> {
        let select = "SELECT body FROM @.cached
             WHERE node = $1 AND input = $2 AND (expires_at IS NULL OR expires_at > $3)";
        let params: [&(dyn ToSql + Sync); 3] =
            [&key.node.as_bytes(), &&key.input.to_bytes()[..], &self.now()];
        let rows = self.query(select, &params).await?;
        let body: &[u8] = self.failures.record(rows.first()?.try_get(0))?;
        let what = || format!("a result of node `{}`", key.node);
        self.failures.record(self.database.codec().decode(what, body))
    }

    async fn put(&self, key: CacheKey, result: CachedResult, ttl: Option<Duration>) {
        let now = self.now();
        let expires_at = ttl.and_then(lifetime).map(|it| now.saturating_add(it));
        let what = || format!("a result of node `{}`", key.node);
        let body = self.database.codec().encode(what, &result);
        let Some(body) = self.failures.record(body) else { return };
        // The row being stored is excluded from the removal, because a statement may change a row only once.
        let put = "WITH past AS (
                 SELECT node, input FROM @.cached
                 WHERE expires_at <= $5 AND (node, input) <> ($1, $2) LIMIT $6
                 FOR UPDATE SKIP LOCKED
             ), purged AS (
                 DELETE FROM @.cached c USING past
                 WHERE c.node = past.node AND c.input = past.input
             )
             INSERT INTO @.cached (node, input, expires_at, body) VALUES ($1, $2, $3, $4)
             ON CONFLICT (node, input) DO UPDATE SET expires_at = $3, body = $4";
        let params: [&(dyn ToSql + Sync); 6] =
            [&key.node.as_bytes(), &&key.input.to_bytes()[..], &expires_at, &body, &now, &PURGE];
        self.query(put, &params).await;
    }

    async fn clear(&self, node: Option<&str>) {
        match node {
            Some(node) => {
                self.query("DELETE FROM @.cached WHERE node = $1", &[&node.as_bytes()]).await
            }
            None => self.query("DELETE FROM @.cached", &[]).await,
        };
    }
}

impl fmt::Debug for PostgresCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresCache")
            .field("database", &self.database)
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}
