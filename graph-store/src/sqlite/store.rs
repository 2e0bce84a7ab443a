//! Long-term memory in a SQLite file.

mod apply;

use std::{path::Path, time::SystemTime};

use async_trait::async_trait;
use graph_core::store::{
    IndexConfig, Op, Outcome, Store, StoreError, TtlConfig, backend::Settings,
};
use rusqlite::{Connection, params};

use super::{
    Sqlite,
    failure::{DatabaseError, Failure},
};
use crate::{
    error::OpenError,
    items::{Work, prepare},
    time::nanos,
};

/// How many expired items one transaction of a sweep removes.
const SLICE: usize = 500;

/// Keeps items in a SQLite file. Cloning gives another handle to the same file.
///
/// It behaves as [`InMemoryStore`](graph_core::store::InMemoryStore) does, batches included: they are done whole
/// or not at all. A search reads the items under its prefix one by one, and so does one with a query, which
/// compares every vector there. Values and vectors are encrypted if the file is; namespaces, keys and times are not.
///
/// Items that expired are hidden; [`sweep`](Store::sweep) removes them.
///
/// ```
/// use graph_core::store::{Filter, Search, Store};
/// use graph_store::SqliteStore;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("memory.db");
/// let store = SqliteStore::open(path)?;
/// store.put(&["users"], "ada", json!({"age": 36})).await?;
/// let adults = store.search(Search::under(&["users"])?.filter(Filter::gte("age", 18))).await?;
/// assert_eq!(adults[0].key, "ada");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SqliteStore {
    database: Sqlite,
    settings: Settings,
}

impl SqliteStore {
    /// Opens a file with the usual settings, and makes it if it is missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Ok(Self::new(&Sqlite::open(path)?))
    }

    /// Keeps items in an open database, without index or default lifetime.
    pub fn new(database: &Sqlite) -> Self {
        Self { database: database.clone(), settings: Settings::new() }
    }

    /// Indexes what is put from now on, so that a search can have a query.
    ///
    /// Items that were put with vectors of another length are found as if they had none, until they are put again.
    pub fn with_index(mut self, index: IndexConfig) -> Self {
        self.settings = self.settings.with_index(index);
        self
    }

    /// Sets how items expire; [`Put::ttl`](graph_core::store::Put::ttl) works without it.
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

    /// The database.
    pub fn database(&self) -> &Sqlite {
        &self.database
    }

    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure<StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.database.write(work).await.map_err(|it| self.explain(it))
    }

    fn explain(&self, failure: Failure<StoreError>) -> StoreError {
        match failure {
            Failure::Refused(error) => error,
            Failure::Database(source) => {
                StoreError::backend(DatabaseError::new(self.database.path(), source))
            }
        }
    }
}

impl From<StoreError> for Failure<StoreError> {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn sweep(&self) -> Result<usize, StoreError> {
        let now = nanos(self.settings.moment().now);
        let mut swept = 0;
        loop {
            let slice = self.write(move |connection| {
                let mut delete = connection.prepare_cached(
                    "DELETE FROM item WHERE id IN
                         (SELECT id FROM item WHERE expires_at <= ?1 LIMIT ?2)",
                )?;
                Ok(delete.execute(params![now, SLICE])?)
            });
            let slice = slice.await?;
            swept += slice;
            if slice < SLICE {
                return Ok(swept);
            }
        }
    }

    async fn batch(&self, ops: Vec<Op>) -> Result<Vec<Outcome>, StoreError> {
        let codec = self.database.codec().clone();
        let (works, moment) = prepare(&self.settings, &codec, ops).await?;
        if works.iter().any(Work::writes) {
            let write = self.write(move |connection| {
                let (outcomes, touches) = apply::all(connection, &codec, &works, moment)?;
                apply::touch(connection, &touches)?;
                Ok(outcomes)
            });
            return write.await;
        }
        // Reading does not wait for the writer, and prolongs lives afterwards.
        let read =
            self.database.read(move |connection| apply::all(connection, &codec, &works, moment));
        let (outcomes, touches) = read.await.map_err(|it| self.explain(it))?;
        if !touches.is_empty() {
            self.write(move |connection| Ok(apply::touch(connection, &touches)?)).await?;
        }
        Ok(outcomes)
    }
}
