//! The database of the API: assistants, threads, runs and other objects, stored as JSON documents.
//!
//! Each operation is one short transaction. It runs on the calling thread, because a commit takes tens of
//! microseconds: with `synchronous = NORMAL`, a commit does not wait for the disk. A crash of the process loses
//! nothing; a power failure can lose the last commits.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Serialize, de::DeserializeOwned};

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS documents (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    parent TEXT,
    status TEXT,
    data TEXT NOT NULL,
    UNIQUE (kind, id)
) STRICT;
CREATE INDEX IF NOT EXISTS documents_by_parent ON documents (kind, parent);
CREATE INDEX IF NOT EXISTS documents_by_status ON documents (kind, status);";

/// An object that is stored in the database.
pub(super) trait Document: Serialize + DeserializeOwned {
    /// Name of this kind of object.
    const KIND: &'static str;

    /// Returns the id, which is unique among objects of this kind.
    fn id(&self) -> String;

    /// Returns the id of the object that this one belongs to.
    fn parent(&self) -> Option<String> {
        None
    }

    /// Returns the status by which objects can be selected.
    fn status(&self) -> Option<String> {
        None
    }
}

/// Selects documents of one kind.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Select<'a> {
    /// Only documents with this parent.
    pub(super) parent: Option<&'a str>,
    /// Only documents with this status.
    pub(super) status: Option<&'a str>,
}

/// The database. Clones share one connection.
#[derive(Debug, Clone)]
pub(super) struct Database {
    connection: Arc<Mutex<Connection>>,
}

impl Database {
    /// Opens the database at `path`, creating the file if it does not exist.
    pub(super) fn open(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA busy_timeout = 10000;",
        )?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)) })
    }

    /// Locks the connection. A poisoned lock is safe to use, because the transaction of the thread that panicked was
    /// rolled back.
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a document, replacing an earlier one with the same id.
    pub(super) fn put<T: Document>(&self, document: &T) -> rusqlite::Result<()> {
        let data = serde_json::to_string(document)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        let connection = self.lock();
        let mut statement = connection.prepare_cached(
            "INSERT INTO documents (kind, id, parent, status, data) VALUES (?1, ?2, ?3, ?4, ?5) \
             ON CONFLICT (kind, id) DO UPDATE SET parent = excluded.parent, status = excluded.status, \
                 data = excluded.data",
        )?;
        let (id, parent, status) = (document.id(), document.parent(), document.status());
        statement.execute(params![T::KIND, id, parent, status, data])?;
        Ok(())
    }

    /// Returns the document with this id.
    pub(super) fn get<T: Document>(&self, id: &str) -> rusqlite::Result<Option<T>> {
        let connection = self.lock();
        let mut statement =
            connection.prepare_cached("SELECT data FROM documents WHERE kind = ?1 AND id = ?2")?;
        statement.query_row(params![T::KIND, id], decode).optional()
    }

    /// Deletes the document with this id. Returns whether it existed.
    pub(super) fn delete<T: Document>(&self, id: &str) -> rusqlite::Result<bool> {
        let connection = self.lock();
        let mut statement =
            connection.prepare_cached("DELETE FROM documents WHERE kind = ?1 AND id = ?2")?;
        Ok(statement.execute(params![T::KIND, id])? > 0)
    }

    /// Deletes the documents of this kind that belong to `parent`.
    pub(super) fn delete_children<T: Document>(&self, parent: &str) -> rusqlite::Result<()> {
        let connection = self.lock();
        let mut statement =
            connection.prepare_cached("DELETE FROM documents WHERE kind = ?1 AND parent = ?2")?;
        statement.execute(params![T::KIND, parent])?;
        Ok(())
    }

    /// Returns the selected documents, oldest first.
    pub(super) fn list<T: Document>(&self, select: Select<'_>) -> rusqlite::Result<Vec<T>> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(
            "SELECT data FROM documents WHERE kind = ?1 AND (?2 IS NULL OR parent = ?2) \
             AND (?3 IS NULL OR status = ?3) ORDER BY number",
        )?;
        statement.query_map(params![T::KIND, select.parent, select.status], decode)?.collect()
    }
}

fn decode<T: DeserializeOwned>(row: &Row<'_>) -> rusqlite::Result<T> {
    let data: String = row.get(0)?;
    serde_json::from_str(&data).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
    })
}
