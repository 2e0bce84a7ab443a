//! Documents in SQLite.
//!
//! Each operation is one transaction. All but searches run on the calling thread, because a commit takes tens of
//! microseconds: with `synchronous = NORMAL`, a commit does not wait for the disk. A crash of the process loses
//! nothing; a power failure can lose the last commits.
//!
//! A search parses every document of its kind that the client can access. It runs on a thread for blocking work, with
//! its own connection, so other operations do not wait for it. A database in memory has only one connection.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use serde_json::json;
use tokio::task::spawn_blocking;

use super::search::{SearchStatement, add_functions};
use crate::langgraph::{
    error::{ApiError, ApiResult},
    storage::{Documents, Filter, Found, Row, Search},
};

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS documents (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    parent TEXT,
    status TEXT,
    data TEXT NOT NULL,
    owner TEXT,
    UNIQUE (kind, id)
) STRICT;
CREATE INDEX IF NOT EXISTS documents_by_owner ON documents (kind, owner);
CREATE INDEX IF NOT EXISTS documents_by_parent ON documents (kind, parent);
CREATE INDEX IF NOT EXISTS documents_by_status ON documents (kind, status);";

/// The connections to a database. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct SqliteDocuments {
    /// Executes searches. It is closed first, because only a connection that can write deletes the write-ahead log.
    reader: Arc<Mutex<Connection>>,
    connection: Arc<Mutex<Connection>>,
}

impl SqliteDocuments {
    pub(super) fn open(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA busy_timeout = 10000;",
        )?;
        add_owner_column(&connection)?;
        connection.execute_batch(SCHEMA)?;
        add_functions(&connection)?;
        // The path of a database in memory is empty.
        let file = connection.path().filter(|it| !it.is_empty()).map(str::to_owned);
        let Some(file) = file else {
            let connection = Arc::new(Mutex::new(connection));
            return Ok(Self { reader: connection.clone(), connection });
        };
        let reader = Arc::new(Mutex::new(open_reader(&file)?));
        Ok(Self { reader, connection: Arc::new(Mutex::new(connection)) })
    }

    /// Locks the connection that can write.
    pub(super) fn lock(&self) -> MutexGuard<'_, Connection> {
        lock(&self.connection)
    }
}

/// Opens a connection for searches.
fn open_reader(file: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let reader = Connection::open_with_flags(file, flags)?;
    reader.execute_batch("PRAGMA busy_timeout = 10000;")?;
    add_functions(&reader)?;
    Ok(reader)
}

/// Locks a connection. A poisoned lock is safe to use, because the transaction of the thread that panicked was rolled
/// back.
fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

/// SQL condition under which a filter includes a document. The first three parameters of the statement are the filter's
/// owner, whether it includes documents without an owner, and its metadata.
const INCLUDED: &str = "(?1 IS NULL OR owner = ?1 OR (?2 AND owner IS NULL)) \
     AND (?3 IS NULL OR json_contains(data -> '$.metadata', ?3))";

/// Returns the metadata that a filter requires, as JSON text.
fn metadata_of(filter: Filter<'_>) -> Option<String> {
    filter.metadata.map(|it| json!(it).to_string())
}

/// Stores a document as [`Documents::put`] does. Returns `false` if the filter excludes the existing document.
pub(super) fn put(
    connection: &Connection,
    row: &Row,
    filter: Filter<'_>,
) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(&format!(
        "INSERT INTO documents (kind, id, parent, status, data, owner) \
         VALUES (?4, ?5, ?6, ?7, ?8, ?9) \
         ON CONFLICT (kind, id) DO UPDATE SET parent = excluded.parent, status = excluded.status, \
             data = excluded.data WHERE {INCLUDED}"
    ))?;
    let (shown, required) = (filter.owner, metadata_of(filter));
    let Row { kind, id, parent, status, data, owner } = row;
    let params = params![shown, filter.shared, required, kind, id, parent, status, data, owner];
    Ok(statement.execute(params)? > 0)
}

/// Returns the content and the owner of a document.
pub(super) fn find(
    connection: &Connection,
    kind: &str,
    id: &str,
) -> rusqlite::Result<Option<(String, Option<String>)>> {
    let mut statement = connection
        .prepare_cached("SELECT data, owner FROM documents WHERE kind = ?1 AND id = ?2")?;
    statement.query_row(params![kind, id], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

#[async_trait]
impl Documents for SqliteDocuments {
    async fn put(&self, row: Row, filter: Filter<'_>) -> ApiResult<()> {
        match put(&self.lock(), &row, filter)? {
            true => Ok(()),
            false => Err(ApiError::id_in_use()),
        }
    }

    async fn add(&self, first: Row, second: Row, filter: Filter<'_>) -> ApiResult<bool> {
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        let insert = "INSERT INTO documents (kind, id, parent, status, data, owner) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (kind, id) DO NOTHING";
        let Row { kind, id, parent, status, data, owner } = first;
        let params = params![kind, id, parent, status, data, owner];
        if transaction.prepare_cached(insert)?.execute(params)? == 0 {
            return Ok(false);
        }
        if !put(&transaction, &second, filter)? {
            return Err(ApiError::id_in_use());
        }
        transaction.commit()?;
        Ok(true)
    }

    async fn replace(&self, row: Row, expected: &str, added: Option<Row>) -> ApiResult<bool> {
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        let update = "UPDATE documents SET data = ?3 WHERE kind = ?1 AND id = ?2 AND data = ?4";
        let replaced = transaction
            .prepare_cached(update)?
            .execute(params![row.kind, row.id, row.data, expected])?
            > 0;
        if let Some(added) = added.filter(|_| replaced) {
            put(&transaction, &added, Filter::default())?;
        }
        transaction.commit()?;
        Ok(replaced)
    }

    async fn get(&self, kind: &str, id: &str, filter: Filter<'_>) -> ApiResult<Option<String>> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT data FROM documents WHERE kind = ?4 AND id = ?5 AND {INCLUDED}"
        ))?;
        let selected = params![filter.owner, filter.shared, metadata_of(filter), kind, id];
        Ok(statement.query_row(selected, |row| row.get(0)).optional()?)
    }

    async fn list(
        &self,
        kind: &str,
        parent: Option<&str>,
        filter: Filter<'_>,
    ) -> ApiResult<Vec<String>> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT data FROM documents WHERE kind = ?4 AND (?5 IS NULL OR parent = ?5) \
             AND {INCLUDED} ORDER BY number"
        ))?;
        let selected = params![filter.owner, filter.shared, metadata_of(filter), kind, parent];
        let rows = statement.query_map(selected, |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    async fn search(
        &self,
        kind: &str,
        wanted: &Search<'_>,
        filter: Filter<'_>,
    ) -> ApiResult<Found> {
        let statement = SearchStatement::new(kind, wanted, filter);
        let reader = self.reader.clone();
        let found = spawn_blocking(move || statement.run(&lock(&reader))).await;
        Ok(found.map_err(|error| ApiError::internal(&error))??)
    }

    async fn owner_of(&self, kind: &str, id: &str) -> ApiResult<Option<Option<String>>> {
        let connection = self.lock();
        let mut statement =
            connection.prepare_cached("SELECT owner FROM documents WHERE kind = ?1 AND id = ?2")?;
        Ok(statement.query_row(params![kind, id], |row| row.get(0)).optional()?)
    }

    async fn is_excluded(&self, kind: &str, id: &str, filter: Filter<'_>) -> ApiResult<bool> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT 1 FROM documents WHERE kind = ?4 AND id = ?5 AND ({INCLUDED}) IS NOT TRUE"
        ))?;
        let selected = params![filter.owner, filter.shared, metadata_of(filter), kind, id];
        Ok(statement.exists(selected)?)
    }

    async fn delete(&self, kind: &str, id: &str, filter: Filter<'_>) -> ApiResult<bool> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(&format!(
            "DELETE FROM documents WHERE kind = ?4 AND id = ?5 AND {INCLUDED}"
        ))?;
        let selected = params![filter.owner, filter.shared, metadata_of(filter), kind, id];
        Ok(statement.execute(selected)? > 0)
    }

    async fn delete_children(&self, kind: &str, parent: &str, filter: Filter<'_>) -> ApiResult<()> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(&format!(
            "DELETE FROM documents WHERE kind = ?4 AND parent = ?5 AND {INCLUDED}"
        ))?;
        let selected = params![filter.owner, filter.shared, metadata_of(filter), kind, parent];
        statement.execute(selected)?;
        Ok(())
    }

    async fn count_by_status(&self, kind: &str) -> ApiResult<Vec<(String, u64)>> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(
            "SELECT status, COUNT(*) FROM documents WHERE kind = ?1 AND status IS NOT NULL GROUP BY status",
        )?;
        let rows = statement.query_map(params![kind], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

/// Adds the column `owner` to a database that was created without it.
fn add_owner_column(connection: &Connection) -> rusqlite::Result<()> {
    let columns =
        "SELECT COUNT(*), COALESCE(SUM(name = 'owner'), 0) FROM pragma_table_info('documents')";
    let (all, owner): (i64, i64) =
        connection.query_row(columns, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if all > 0 && owner == 0 {
        connection.execute_batch("ALTER TABLE documents ADD COLUMN owner TEXT")?;
    }
    Ok(())
}
