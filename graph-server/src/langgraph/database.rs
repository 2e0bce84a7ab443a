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
    owner TEXT,
    UNIQUE (kind, id)
) STRICT;
CREATE INDEX IF NOT EXISTS documents_by_owner ON documents (kind, owner);
CREATE INDEX IF NOT EXISTS documents_by_parent ON documents (kind, parent);
CREATE INDEX IF NOT EXISTS documents_by_status ON documents (kind, status);";

/// An object that is stored in the database.
pub(super) trait Document: Serialize + DeserializeOwned {
    /// Name of this kind of object.
    const KIND: &'static str;

    /// Whether objects without an owner are visible to every client.
    const SHARED: bool = false;

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

/// The objects that a client sees, and the owner of the objects that it creates.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// Only the objects of this owner. `None`: the objects of all owners.
    filter: Option<Arc<str>>,
    /// Owner of new objects.
    owner: Option<Arc<str>>,
}

impl View {
    /// Returns the view of a client that sees only the objects of its owner.
    pub(super) fn of_owner(owner: &str) -> Self {
        let owner: Arc<str> = owner.into();
        Self { filter: Some(owner.clone()), owner: Some(owner) }
    }

    /// Returns the view of a client that sees the objects of all owners.
    pub(super) fn of_admin(owner: &str) -> Self {
        Self { filter: None, owner: Some(owner.into()) }
    }

    /// Returns whether objects of this owner are visible.
    pub(super) fn sees(&self, owner: Option<&str>) -> bool {
        self.filter.as_deref().is_none_or(|it| owner == Some(it))
    }

    /// Returns the owner to whose objects the view is restricted.
    pub(super) fn restricted_to(&self) -> Option<&str> {
        self.filter.as_deref()
    }

    /// Returns the owner of new objects.
    pub(super) fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }
}

/// The database, as a client sees it. Clones share one connection.
#[derive(Debug, Clone)]
pub(super) struct Database {
    connection: Arc<Mutex<Connection>>,
    view: View,
}

impl Database {
    /// Opens the database at `path`, creating the file if it does not exist.
    pub(super) fn open(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA busy_timeout = 10000;",
        )?;
        add_owner_column(&connection)?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)), view: View::default() })
    }

    /// Returns the same database as another client sees it.
    pub(super) fn with_view(&self, view: View) -> Self {
        Self { connection: self.connection.clone(), view }
    }

    /// Returns what the client of this database sees.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Locks the connection. A poisoned lock is safe to use, because the transaction of the thread that panicked was
    /// rolled back.
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a document, replacing an earlier one with the same id. A new document belongs to the owner of the view.
    /// Fails with `StatementChangedRows(0)` if the id belongs to a document that the client may not change.
    pub(super) fn put<T: Document>(&self, document: &T) -> rusqlite::Result<()> {
        self.put_owned(document, self.view.owner())
    }

    /// Stores a document like [`put`](Self::put). A new document belongs to `owner`.
    pub(super) fn put_owned<T: Document>(
        &self,
        document: &T,
        owner: Option<&str>,
    ) -> rusqlite::Result<()> {
        let data = serde_json::to_string(document)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        let connection = self.lock();
        let mut statement = connection.prepare_cached(
            "INSERT INTO documents (kind, id, parent, status, data, owner) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
             ON CONFLICT (kind, id) DO UPDATE SET parent = excluded.parent, status = excluded.status, \
                 data = excluded.data WHERE ?7 IS NULL OR documents.owner = ?7",
        )?;
        let (id, parent, status) = (document.id(), document.parent(), document.status());
        let filter = self.view.restricted_to();
        match statement.execute(params![T::KIND, id, parent, status, data, owner, filter])? {
            0 => Err(rusqlite::Error::StatementChangedRows(0)),
            _ => Ok(()),
        }
    }

    /// Returns the owner of a document, whether or not the client sees it. The outer option is `None` if the document
    /// does not exist.
    pub(super) fn owner_of<T: Document>(
        &self,
        id: &str,
    ) -> rusqlite::Result<Option<Option<String>>> {
        let connection = self.lock();
        let mut statement =
            connection.prepare_cached("SELECT owner FROM documents WHERE kind = ?1 AND id = ?2")?;
        statement.query_row(params![T::KIND, id], |row| row.get(0)).optional()
    }

    /// Returns whether a document with this id exists that the client may not see.
    pub(super) fn is_hidden<T: Document>(&self, id: &str) -> rusqlite::Result<bool> {
        let owner = self.owner_of::<T>(id)?;
        Ok(owner.is_some_and(|it| !self.view.sees(it.as_deref())))
    }

    /// Counts the documents of this kind by status.
    pub(super) fn count_by_status<T: Document>(&self) -> rusqlite::Result<Vec<(String, u64)>> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(
            "SELECT status, COUNT(*) FROM documents WHERE kind = ?1 AND status IS NOT NULL GROUP BY status",
        )?;
        statement.query_map(params![T::KIND], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }

    /// Returns the document with this id.
    pub(super) fn get<T: Document>(&self, id: &str) -> rusqlite::Result<Option<T>> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(
            "SELECT data FROM documents WHERE kind = ?1 AND id = ?2 \
             AND (?3 IS NULL OR owner = ?3 OR (?4 AND owner IS NULL))",
        )?;
        let (filter, shared) = (self.view.restricted_to(), T::SHARED);
        statement.query_row(params![T::KIND, id, filter, shared], decode).optional()
    }

    /// Deletes the document with this id. Returns whether it existed.
    pub(super) fn delete<T: Document>(&self, id: &str) -> rusqlite::Result<bool> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(
            "DELETE FROM documents WHERE kind = ?1 AND id = ?2 AND (?3 IS NULL OR owner = ?3)",
        )?;
        Ok(statement.execute(params![T::KIND, id, self.view.restricted_to()])? > 0)
    }

    /// Deletes the documents of this kind that belong to `parent`.
    pub(super) fn delete_children<T: Document>(&self, parent: &str) -> rusqlite::Result<()> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(
            "DELETE FROM documents WHERE kind = ?1 AND parent = ?2 AND (?3 IS NULL OR owner = ?3)",
        )?;
        statement.execute(params![T::KIND, parent, self.view.restricted_to()])?;
        Ok(())
    }

    /// Returns the selected documents, oldest first.
    pub(super) fn list<T: Document>(&self, select: Select<'_>) -> rusqlite::Result<Vec<T>> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(
            "SELECT data FROM documents WHERE kind = ?1 AND (?2 IS NULL OR parent = ?2) \
             AND (?3 IS NULL OR status = ?3) AND (?4 IS NULL OR owner = ?4 OR (?5 AND owner IS NULL)) \
             ORDER BY number",
        )?;
        let (filter, shared) = (self.view.restricted_to(), T::SHARED);
        let selected = params![T::KIND, select.parent, select.status, filter, shared];
        statement.query_map(selected, decode)?.collect()
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

fn decode<T: DeserializeOwned>(row: &Row<'_>) -> rusqlite::Result<T> {
    let data: String = row.get(0)?;
    serde_json::from_str(&data).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
    })
}
