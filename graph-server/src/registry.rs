//! The registry of all runs, which is stored in a SQLite database.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::SystemTime,
};

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use crate::run::{NewRun, RunInfo, Status, from_millis, to_millis};

/// The registry of all runs. Clones share one connection.
///
/// ```
/// use graph_server::Registry;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("runs.db");
/// let registry = Registry::open(path)?;
/// assert!(registry.get("run-1")?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Registry {
    connection: Arc<Mutex<Connection>>,
}

/// The error returned when the registry cannot be read or written.
#[derive(thiserror::Error)]
#[error("cannot access the run registry: {0}")]
pub struct RegistryError(#[from] rusqlite::Error);

graph_core::readable_debug!(RegistryError);

/// Version of the database schema. Databases with an earlier version are migrated, and those with a later version are
/// rejected.
const VERSION: i64 = 2;

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    subject TEXT NOT NULL,
    input TEXT NOT NULL,
    resume_args TEXT NOT NULL,
    status TEXT NOT NULL,
    error TEXT,
    outcome TEXT NOT NULL DEFAULT 'null',
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    ended INTEGER
) STRICT;
CREATE INDEX IF NOT EXISTS runs_by_status ON runs (status);";

const COLUMNS: &str =
    "id, subject, input, resume_args, status, error, created, updated, ended, outcome";

impl Registry {
    /// Opens the registry at `path`, creating the file if it does not exist.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RegistryError> {
        Self::init(Connection::open(path)?)
    }

    /// Opens a registry in memory. It is lost when the process exits.
    pub fn in_memory() -> Result<Self, RegistryError> {
        Self::init(Connection::open_in_memory()?)
    }

    fn init(connection: Connection) -> Result<Self, RegistryError> {
        // `synchronous` is `FULL`, because a status that a client has seen must survive a power failure.
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 10000;",
        )?;
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if !(0..=VERSION).contains(&version) {
            let text = format!(
                "its schema version is {version}, but this program supports only versions 1 to {VERSION}; open it with \
                 the program that created it, or use another file"
            );
            return Err(RegistryError(rusqlite::Error::ToSqlConversionFailure(text.into())));
        }
        if version == 1 {
            connection.execute_batch(
                "BEGIN; ALTER TABLE runs RENAME COLUMN told TO resume_args; PRAGMA user_version = 2; COMMIT;",
            )?;
        }
        connection.execute_batch(SCHEMA)?;
        connection.pragma_update(None, "user_version", VERSION)?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)) })
    }

    /// Locks the connection. A poisoned lock is safe to use, because the transaction of the thread that panicked
    /// was rolled back.
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Adds a queued run. Returns `None` if the id is already in use.
    pub(crate) fn insert(&self, new: &NewRun) -> Result<Option<RunInfo>, RegistryError> {
        let now = SystemTime::now();
        let millis = to_millis(now);
        let added = self.lock().execute(
            "INSERT OR IGNORE INTO runs (id, subject, input, resume_args, status, created, updated) \
             VALUES (?1, ?2, ?3, 'null', 'queued', ?4, ?4)",
            params![new.id, new.subject, new.input.to_string(), millis],
        )?;
        if added == 0 { Ok(None) } else { self.get(&new.id) }
    }

    /// Adds a run that was completed outside this service. A run that is already registered is marked complete only
    /// if it is inactive and was last updated before `ended_at`.
    pub fn import_complete_run(
        &self,
        run: &NewRun,
        outcome: &Value,
        created_at: SystemTime,
        ended_at: SystemTime,
    ) -> Result<(), RegistryError> {
        self.lock().execute(
            "INSERT INTO runs (id, subject, input, resume_args, status, created, updated, ended, outcome) \
             VALUES (?1, ?2, ?3, 'null', 'complete', ?4, ?5, ?5, ?6) \
             ON CONFLICT (id) DO UPDATE SET status = 'complete', error = NULL, updated = excluded.updated, \
                 ended = excluded.ended, outcome = excluded.outcome \
             WHERE status NOT IN ('queued', 'running') AND updated < excluded.updated",
            params![
                run.id,
                run.subject,
                run.input.to_string(),
                to_millis(created_at),
                to_millis(ended_at),
                outcome.to_string()
            ],
        )?;
        Ok(())
    }

    /// Returns the run with this id.
    pub fn get(&self, id: &str) -> Result<Option<RunInfo>, RegistryError> {
        let sql = format!("SELECT {COLUMNS} FROM runs WHERE id = ?1");
        Ok(self.lock().prepare_cached(&sql)?.query_row([id], run_from_row).optional()?)
    }

    /// Lists up to `limit` runs, newest first. If `before` is set, lists only runs that were created before that
    /// run.
    pub(crate) fn list(
        &self,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<RunInfo>, RegistryError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM runs \
             WHERE ?1 IS NULL OR number < (SELECT number FROM runs WHERE id = ?1) \
             ORDER BY number DESC LIMIT ?2"
        );
        let connection = self.lock();
        let mut statement = connection.prepare_cached(&sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![before, limit], run_from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Lists the active runs, oldest first.
    pub(crate) fn list_active(&self) -> Result<Vec<RunInfo>, RegistryError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM runs WHERE status IN ('queued', 'running') ORDER BY number"
        );
        let connection = self.lock();
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map([], run_from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Counts the runs with each status.
    pub(crate) fn count_by_status(&self) -> Result<Vec<(Status, u64)>, RegistryError> {
        let connection = self.lock();
        let mut statement =
            connection.prepare_cached("SELECT count(*) FROM runs WHERE status = ?1")?;
        let mut count = |it: Status| {
            let number: i64 = statement.query_row([it.name()], |row| row.get(0))?;
            Ok((it, number.unsigned_abs()))
        };
        Status::ALL.into_iter().map(&mut count).collect()
    }

    /// Sets the status of a run, together with its error or result.
    pub(crate) fn set_status(
        &self,
        id: &str,
        status: Status,
        error: Option<&str>,
        outcome: &Value,
    ) -> Result<(), RegistryError> {
        let now = to_millis(SystemTime::now());
        let ended = (!status.is_active()).then_some(now);
        self.lock().execute(
            "UPDATE runs SET status = ?2, error = ?3, updated = ?4, ended = ?5, outcome = ?6 WHERE id = ?1",
            params![id, status.name(), error, now, ended, outcome.to_string()],
        )?;
        Ok(())
    }

    /// Removes a run.
    pub(crate) fn delete(&self, id: &str) -> Result<(), RegistryError> {
        self.lock().execute("DELETE FROM runs WHERE id = ?1", [id])?;
        Ok(())
    }

    /// Queues an inactive run again and stores the arguments of the resume request.
    pub(crate) fn requeue(&self, id: &str, resume_args: &Value) -> Result<(), RegistryError> {
        self.lock().execute(
            "UPDATE runs SET status = 'queued', error = NULL, resume_args = ?2, updated = ?3, ended = NULL \
             WHERE id = ?1",
            params![id, resume_args.to_string(), to_millis(SystemTime::now())],
        )?;
        Ok(())
    }
}

fn run_from_row(row: &Row<'_>) -> rusqlite::Result<RunInfo> {
    let json = |at: usize, text: String| {
        serde_json::from_str(&text).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(
                at,
                rusqlite::types::Type::Text,
                Box::new(error),
            )
        })
    };
    let status: String = row.get(4)?;
    Ok(RunInfo {
        id: row.get(0)?,
        subject: row.get(1)?,
        input: json(2, row.get(2)?)?,
        resume_args: json(3, row.get(3)?)?,
        status: Status::ALL.into_iter().find(|it| it.name() == status).unwrap_or(Status::Error),
        error: row.get(5)?,
        created_at: from_millis(row.get(6)?),
        updated_at: from_millis(row.get(7)?),
        ended_at: row.get::<_, Option<i64>>(8)?.map(from_millis),
        outcome: json(9, row.get(9)?)?,
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use serde_json::{Value, json};

    use super::{NewRun, Registry, Status};

    #[test]
    fn runs_persist_in_order_and_can_be_queued_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runs.db");
        let registry = Registry::open(&path).unwrap();
        let new =
            |id: &str| NewRun { id: id.into(), subject: "x".into(), input: json!({ "a": 1 }) };
        for id in ["c", "a", "b"] {
            assert_eq!(registry.insert(&new(id)).unwrap().unwrap().status, Status::Queued);
        }
        assert_eq!(registry.insert(&new("a")).unwrap(), None);
        registry.set_status("a", Status::Error, Some("why"), &Value::Null).unwrap();
        drop(registry);

        let registry = Registry::open(&path).unwrap();
        let ids = |before, limit| -> Vec<String> {
            registry.list(before, limit).unwrap().into_iter().map(|it| it.id).collect()
        };
        assert_eq!(ids(None, 9), ["b", "a", "c"]);
        assert_eq!(ids(Some("b"), 1), ["a"]);
        let a = registry.get("a").unwrap().unwrap();
        assert_eq!((a.error.as_deref(), a.resume_args), (Some("why"), Value::Null));
        assert!(a.ended_at.is_some());
        registry.requeue("a", &json!(1)).unwrap();
        let active: Vec<_> = registry.list_active().unwrap();
        assert_eq!(active.len(), 3);
        assert_eq!((active[1].resume_args.clone(), active[1].ended_at), (json!(1), None));
        assert_eq!(registry.count_by_status().unwrap()[0], (Status::Queued, 3));
    }

    #[test]
    fn imported_runs_are_complete_unless_active_or_updated_later() {
        let registry = Registry::in_memory().unwrap();
        let new = |id: &str| NewRun { id: id.into(), subject: "x".into(), input: json!({}) };
        let (past, future) = (SystemTime::UNIX_EPOCH, SystemTime::now() + Duration::from_secs(60));
        for id in ["active", "failed", "older"] {
            registry.insert(&new(id)).unwrap();
        }
        for id in ["failed", "older"] {
            registry.set_status(id, Status::Error, Some("why"), &Value::Null).unwrap();
        }
        for (id, ended) in [("active", future), ("failed", future), ("older", past), ("new", past)]
        {
            registry.import_complete_run(&new(id), &json!(id), past, ended).unwrap();
        }
        let run = |id| registry.get(id).unwrap().unwrap();
        let statuses = ["active", "failed", "older", "new"].map(|id| run(id).status);
        use Status::{Complete, Error, Queued};
        assert_eq!(statuses, [Queued, Complete, Error, Complete]);
        assert_eq!((run("failed").error, run("failed").outcome), (None, json!("failed")));
    }

    #[test]
    fn databases_of_version_1_are_migrated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runs.db");
        let old = rusqlite::Connection::open(&path).unwrap();
        old.execute_batch(&super::SCHEMA.replace("resume_args", "told")).unwrap();
        let insert = "INSERT INTO runs (id, subject, input, told, status, created, updated) \
                      VALUES ('a', 'x', '{}', '[1]', 'error', 0, 0)";
        old.execute(insert, []).unwrap();
        old.pragma_update(None, "user_version", 1).unwrap();
        drop(old);
        for _ in 0..2 {
            let run = Registry::open(&path).unwrap().get("a").unwrap().unwrap();
            assert_eq!(run.resume_args, json!([1]));
        }
    }

    #[test]
    fn databases_of_later_versions_are_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runs.db");
        rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 7).unwrap();
        let error = Registry::open(&path).unwrap_err().to_string();
        assert!(error.contains("version is 7"), "{error}");
    }
}
