//! Long-term memory on a PostgreSQL server.

mod apply;

use async_trait::async_trait;
use graph_core::store::{
    IndexConfig, Op, OpOutput, Store, StoreError, TtlConfig,
    backend::{Settings, TtlContext},
};
use tokio_postgres::IsolationLevel;

use super::{
    database::{Postgres, RetryBackoff},
    failure::{Failure, is_conflict, is_connection_lost},
};
use crate::items::{PreparedOp, TtlRefresh, prepare};
use crate::time::nanos;

/// Maximum number of expired items that one statement removes during a sweep.
const BATCH_ROWS: i64 = 1_000;

/// Stores items on a PostgreSQL server. Clones share the same database.
///
/// It behaves like [`InMemoryStore`](graph_core::store::InMemoryStore), also for batches: a batch is applied as a
/// whole or not at all, and a batch that only reads sees one consistent state of the store. A search scans the
/// items under its prefix; a search with a query compares the vectors of all of them. If encryption is configured
/// for the database, values and vectors are encrypted; namespaces, keys and times never are. A namespace and a key
/// together can have at most 2,600 bytes.
///
/// Expired items are hidden until [`sweep`](Store::sweep) removes them. Expiry is determined by the clock of this
/// machine, so machines that share a server should have synchronised clocks.
///
/// ```no_run
/// use graph_core::store::{Filter, Search, Store};
/// use graph_store::{Postgres, PostgresStore};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let database = Postgres::connect("postgresql://graphs:secret@db.example.org/graphs").await?;
/// let store = PostgresStore::new(&database);
/// store.put(&["users"], "ada", json!({"age": 36})).await?;
/// let adults = store.search(Search::under(&["users"])?.filter(Filter::gte("age", 18))).await?;
/// assert_eq!(adults[0].key, "ada");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct PostgresStore {
    database: Postgres,
    settings: Settings,
}

impl PostgresStore {
    /// Creates a store in an open database, without an index and without a default lifetime.
    pub fn new(database: &Postgres) -> Self {
        Self { database: database.clone(), settings: Settings::new() }
    }

    /// Indexes all items that are put from now on, so that they can be searched with a query.
    ///
    /// Stored items whose vectors do not have the dimension of `index` are treated as if they had no vectors, until
    /// they are put again.
    pub fn with_index(mut self, index: IndexConfig) -> Self {
        self.settings = self.settings.with_index(index);
        self
    }

    /// Sets how items expire. [`Put::ttl`](graph_core::store::Put::ttl) also works without this setting.
    pub fn with_ttl(mut self, ttl: TtlConfig) -> Self {
        self.settings = self.settings.with_ttl(ttl);
        self
    }

    /// Replaces the settings of the store: the index, the lifetimes and the clock.
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Returns the database in which items are stored.
    pub fn database(&self) -> &Postgres {
        &self.database
    }

    fn store_error(&self, failure: Failure<StoreError>) -> StoreError {
        match failure {
            Failure::Rejected(error) => error,
            Failure::Database(source) => StoreError::backend(self.database.database_error(source)),
        }
    }

    /// Applies the operations with as few statements and transactions as possible.
    async fn attempt(
        &self,
        prepared_ops: &[PreparedOp],
        moment: TtlContext,
    ) -> Result<(Vec<OpOutput>, Vec<TtlRefresh>), AttemptError> {
        let mut connection = self.database.connection().await.map_err(AttemptError::not_applied)?;
        let done = match TransactionMode::of(prepared_ops) {
            TransactionMode::None => {
                apply::apply_ops(&connection, &self.database, prepared_ops, moment).await
            }
            TransactionMode::ReadOnly => {
                let begin = connection.build_transaction().read_only(true);
                let begin = begin.isolation_level(IsolationLevel::RepeatableRead);
                let transaction = begin.start().await.map_err(AttemptError::not_applied)?;
                apply::apply_ops(&transaction, &self.database, prepared_ops, moment).await
            }
            TransactionMode::ReadWrite => {
                let transaction =
                    connection.transaction().await.map_err(AttemptError::not_applied)?;
                let done =
                    apply::apply_ops_locked(&transaction, &self.database, prepared_ops, moment)
                        .await;
                let outcomes = done.map_err(AttemptError::not_applied)?;
                transaction.commit().await.map_err(AttemptError::maybe_applied)?;
                return Ok((outcomes, Vec::new()));
            }
        };
        done.map_err(AttemptError::not_applied)
    }
}

/// The kind of transaction that a batch needs.
enum TransactionMode {
    /// No transaction is needed, because the batch is a single statement.
    None,
    /// A read-only transaction, in which all reads see one consistent snapshot.
    ReadOnly,
    ReadWrite,
}

impl TransactionMode {
    fn of(prepared_ops: &[PreparedOp]) -> Self {
        match prepared_ops {
            [PreparedOp::Search(search, _)] if !apply::is_one_chunk(search) => Self::ReadOnly,
            [] | [_] => Self::None,
            many if many.iter().any(PreparedOp::is_write) => Self::ReadWrite,
            _ => Self::ReadOnly,
        }
    }
}

/// A failed attempt to apply a batch.
struct AttemptError {
    failure: Failure<StoreError>,
    /// Whether the batch can be retried.
    is_retryable: bool,
}

impl AttemptError {
    /// Creates the error for a failure after which the batch can be retried, because either no operation was applied
    /// or only idempotent operations were.
    fn not_applied(failure: impl Into<Failure<StoreError>>) -> Self {
        let failure = failure.into();
        let is_retryable =
            matches!(&failure, Failure::Database(it) if is_connection_lost(it) || is_conflict(it));
        Self { failure, is_retryable }
    }

    /// Creates the error for a failed commit. If the connection was lost, it is unknown whether the batch was
    /// applied. The batch must not be retried, because its reads could then see its own writes.
    fn maybe_applied(failure: impl Into<Failure<StoreError>>) -> Self {
        let failure = failure.into();
        let is_retryable = matches!(&failure, Failure::Database(it) if is_conflict(it));
        Self { failure, is_retryable }
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn sweep(&self) -> Result<usize, StoreError> {
        let now = nanos(self.settings.ttl_context().now);
        let mut swept = 0;
        loop {
            // Items locked by concurrent transactions are left to the next sweep.
            let delete = "WITH past AS (
                     SELECT namespace, key FROM @.item WHERE expires_at <= $1 LIMIT $2
                     FOR UPDATE SKIP LOCKED
                 )
                 DELETE FROM @.item i USING past
                 WHERE i.namespace = past.namespace AND i.key = past.key RETURNING 1";
            let slice = self.database.query(delete, &[&now, &BATCH_ROWS]).await;
            let slice = slice.map_err(|it| self.store_error(it.into()))?.len();
            swept += slice;
            if slice == 0 {
                return Ok(swept);
            }
        }
    }

    async fn batch(&self, ops: Vec<Op>) -> Result<Vec<OpOutput>, StoreError> {
        let (prepared_ops, moment) = prepare(&self.settings, self.database.codec(), ops).await?;
        let mut backoff = RetryBackoff::default();
        let (outcomes, refreshes) = loop {
            match self.attempt(&prepared_ops, moment).await {
                Ok(done) => break done,
                Err(error) if error.is_retryable && backoff.wait().await => {}
                Err(error) => return Err(self.store_error(error.failure)),
            }
        };
        if !refreshes.is_empty() {
            let refreshed = apply::refresh_ttls(&self.database, &refreshes).await;
            refreshed.map_err(|it| self.store_error(it.into()))?;
        }
        Ok(outcomes)
    }
}
