//! Long-term memory in a SQLite file.

mod apply;

use std::path::Path;

use async_trait::async_trait;
use graph_core::store::{
    IndexConfig, Op, OpOutput, Store, StoreError, TtlConfig, backend::Settings,
};
use rusqlite::{Connection, params};

use super::{
    Sqlite,
    failure::{DatabaseError, Failure},
};
use crate::{
    error::OpenError,
    items::{PreparedOp, prepare},
    time::nanos,
};

/// Number of expired items that one transaction removes during a sweep.
const BATCH_ROWS: usize = 500;

/// Stores items in a SQLite file. Clones share the same file.
///
/// It behaves like [`InMemoryStore`](graph_core::store::InMemoryStore), also for batches: a batch is applied as a
/// whole or not at all. A search scans the items under its prefix; a search with a query compares the vectors of
/// all of them. If encryption is configured for the file, values and vectors are encrypted; namespaces, keys and
/// times never are.
///
/// Expired items are hidden until [`sweep`](Store::sweep) removes them.
///
/// ```
/// use graph_core::store::{Filter, Search, Store};
/// use graph_store::SqliteStore;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("memory.db");
/// let store = SqliteStore::open(path)?;
/// store.put(&["users"], "ada", json!({"age": 36})).await?;
/// let adults = store.search(Search::under(&["users"])?.filter(Filter::gte("age", 18))).await?;
/// assert_eq!(adults[0].key, "ada");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct SqliteStore {
    database: Sqlite,
    settings: Settings,
}

impl SqliteStore {
    /// Opens a file with the default settings, and creates it if it is missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Ok(Self::new(&Sqlite::open(path)?))
    }

    /// Creates a store in an open database, without an index and without a default lifetime.
    pub fn new(database: &Sqlite) -> Self {
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
    pub fn database(&self) -> &Sqlite {
        &self.database
    }

    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure<StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.database.write(work).await.map_err(|it| self.store_error(it))
    }

    fn store_error(&self, failure: Failure<StoreError>) -> StoreError {
        match failure {
            Failure::Rejected(error) => error,
            Failure::Database(source) => {
                StoreError::backend(DatabaseError::new(self.database.path(), source))
            }
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn sweep(&self) -> Result<usize, StoreError> {
        let now = nanos(self.settings.ttl_context().now);
        let mut swept = 0;
        loop {
            let slice = self.write(move |connection| {
                let mut delete = connection.prepare_cached(
                    "DELETE FROM item WHERE id IN
                         (SELECT id FROM item WHERE expires_at <= ?1 LIMIT ?2)",
                )?;
                Ok(delete.execute(params![now, BATCH_ROWS])?)
            });
            let slice = slice.await?;
            swept += slice;
            if slice < BATCH_ROWS {
                return Ok(swept);
            }
        }
    }

    async fn batch(&self, ops: Vec<Op>) -> Result<Vec<OpOutput>, StoreError> {
        let codec = self.database.codec().clone();
        let (prepared_ops, moment) = prepare(&self.settings, &codec, ops).await?;
        if prepared_ops.iter().any(PreparedOp::is_write) {
            let write = self.write(move |connection| {
                let (outcomes, refreshes) =
                    apply::apply_ops(connection, &codec, &prepared_ops, moment)?;
                apply::refresh_ttls(connection, &refreshes)?;
                Ok(outcomes)
            });
            return write.await;
        }
        // Reading does not wait for the writer, so lifetimes are extended afterwards.
        let read = self
            .database
            .read(move |connection| apply::apply_ops(connection, &codec, &prepared_ops, moment));
        let (outcomes, refreshes) = read.await.map_err(|it| self.store_error(it))?;
        if !refreshes.is_empty() {
            self.write(move |connection| Ok(apply::refresh_ttls(connection, &refreshes)?)).await?;
        }
        Ok(outcomes)
    }
}
