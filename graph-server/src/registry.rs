//! The list of all runs, in a file of SQLite.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::SystemTime,
};

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use crate::run::{NewRun, RunInfo, Status, from_millis, to_millis};

/// The list of all runs. Clones share it.
#[derive(Debug, Clone)]
pub struct Registry {
    connection: Arc<Mutex<Connection>>,
}

/// Why the list of runs cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("the list of runs: {0}")]
pub struct RegistryError(#[from] rusqlite::Error);

/// Files with another number are not this program's.
const VERSION: i64 = 1;

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    subject TEXT NOT NULL,
    input TEXT NOT NULL,
    told TEXT NOT NULL,
    status TEXT NOT NULL,
    error TEXT,
    outcome TEXT NOT NULL DEFAULT 'null',
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    ended INTEGER
) STRICT;
CREATE INDEX IF NOT EXISTS runs_by_status ON runs (status);
CREATE TABLE IF NOT EXISTS events (
    run TEXT NOT NULL,
    seq INTEGER NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;";

const COLUMNS: &str = "id, subject, input, told, status, error, created, updated, ended, outcome";

impl Registry {
    /// Opens the list in a file, which is made if it is not there.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RegistryError> {
        Self::with(Connection::open(path)?)
    }

    /// A list that ends with the process.
    pub fn in_memory() -> Result<Self, RegistryError> {
        Self::with(Connection::open_in_memory()?)
    }

    fn with(connection: Connection) -> Result<Self, RegistryError> {
        // A status that was told to somebody has reached the disk.
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 10000;",
        )?;
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if version != 0 && version != VERSION {
            let text = format!("its version is {version}, this program knows {VERSION}");
            return Err(RegistryError(rusqlite::Error::ToSqlConversionFailure(text.into())));
        }
        connection.execute_batch(SCHEMA)?;
        connection.pragma_update(None, "user_version", VERSION)?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)) })
    }

    /// The connection. Whoever panicked with it left no transaction open: a dropped one rolls back.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Adds a run that waits for its turn; `None` if there is one with its id.
    pub(crate) fn add(&self, new: &NewRun) -> Result<Option<RunInfo>, RegistryError> {
        let now = SystemTime::now();
        let millis = to_millis(now);
        let added = self.lock().execute(
            "INSERT OR IGNORE INTO runs (id, subject, input, told, status, created, updated) \
             VALUES (?1, ?2, ?3, 'null', 'queued', ?4, ?4)",
            params![new.id, new.subject, new.input.to_string(), millis],
        )?;
        if added == 0 { Ok(None) } else { self.get(&new.id) }
    }

    /// Adds a run that came to its end without this service. One that is known already is noted as complete if it
    /// rested before that and nobody works on it here.
    pub fn adopt(
        &self,
        done: &NewRun,
        outcome: &Value,
        created_at: SystemTime,
        ended_at: SystemTime,
    ) -> Result<(), RegistryError> {
        self.lock().execute(
            "INSERT INTO runs (id, subject, input, told, status, created, updated, ended, outcome) \
             VALUES (?1, ?2, ?3, 'null', 'complete', ?4, ?5, ?5, ?6) \
             ON CONFLICT (id) DO UPDATE SET status = 'complete', error = NULL, updated = excluded.updated, \
                 ended = excluded.ended, outcome = excluded.outcome \
             WHERE status NOT IN ('queued', 'running') AND updated < excluded.updated",
            params![
                done.id,
                done.subject,
                done.input.to_string(),
                to_millis(created_at),
                to_millis(ended_at),
                outcome.to_string()
            ],
        )?;
        Ok(())
    }

    /// A run.
    pub fn get(&self, id: &str) -> Result<Option<RunInfo>, RegistryError> {
        let sql = format!("SELECT {COLUMNS} FROM runs WHERE id = ?1");
        Ok(self.lock().prepare_cached(&sql)?.query_row([id], read).optional()?)
    }

    /// Runs, the newest first, from the one made before this one on.
    pub(crate) fn list(
        &self,
        before: Option<&str>,
        most: usize,
    ) -> Result<Vec<RunInfo>, RegistryError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM runs \
             WHERE ?1 IS NULL OR number < (SELECT number FROM runs WHERE id = ?1) \
             ORDER BY number DESC LIMIT ?2"
        );
        let connection = self.lock();
        let mut statement = connection.prepare_cached(&sql)?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![before, most], read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Runs that are to go on by themselves, the oldest first.
    pub(crate) fn unfinished(&self) -> Result<Vec<RunInfo>, RegistryError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM runs WHERE status IN ('queued', 'running') ORDER BY number"
        );
        let connection = self.lock();
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map([], read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// How many runs have each status.
    pub(crate) fn count(&self) -> Result<Vec<(Status, u64)>, RegistryError> {
        let connection = self.lock();
        let mut statement =
            connection.prepare_cached("SELECT count(*) FROM runs WHERE status = ?1")?;
        let mut count = |it: Status| {
            let number: i64 = statement.query_row([it.name()], |row| row.get(0))?;
            Ok((it, number.unsigned_abs()))
        };
        Status::ALL.into_iter().map(&mut count).collect()
    }

    /// Changes where a run stands.
    pub(crate) fn set(
        &self,
        id: &str,
        status: Status,
        error: Option<&str>,
        outcome: &Value,
    ) -> Result<(), RegistryError> {
        let now = to_millis(SystemTime::now());
        let ended = (!status.is_live()).then_some(now);
        self.lock().execute(
            "UPDATE runs SET status = ?2, error = ?3, updated = ?4, ended = ?5, outcome = ?6 WHERE id = ?1",
            params![id, status.name(), error, now, ended, outcome.to_string()],
        )?;
        Ok(())
    }

    /// Puts a run that nobody works on back into the queue, with an order.
    pub(crate) fn requeue(&self, id: &str, order: &Value) -> Result<(), RegistryError> {
        self.lock().execute(
            "UPDATE runs SET status = 'queued', error = NULL, told = ?2, updated = ?3, ended = NULL \
             WHERE id = ?1",
            params![id, order.to_string(), to_millis(SystemTime::now())],
        )?;
        Ok(())
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<RunInfo> {
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
        order: json(3, row.get(3)?)?,
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
    fn runs_are_kept_in_order_and_only_those_that_rest_are_queued_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        let registry = Registry::open(&path).unwrap();
        let new =
            |id: &str| NewRun { id: id.into(), subject: "x".into(), input: json!({ "a": 1 }) };
        for id in ["c", "a", "b"] {
            assert_eq!(registry.add(&new(id)).unwrap().unwrap().status, Status::Queued);
        }
        assert_eq!(registry.add(&new("a")).unwrap(), None);
        registry.set("a", Status::Error, Some("why"), &Value::Null).unwrap();
        drop(registry);

        let registry = Registry::open(&path).unwrap();
        let ids = |before, most| -> Vec<String> {
            registry.list(before, most).unwrap().into_iter().map(|it| it.id).collect()
        };
        assert_eq!(ids(None, 9), ["b", "a", "c"]);
        assert_eq!(ids(Some("b"), 1), ["a"]);
        let a = registry.get("a").unwrap().unwrap();
        assert_eq!((a.error.as_deref(), a.order), (Some("why"), Value::Null));
        assert!(a.ended_at.is_some());
        registry.requeue("a", &json!(1)).unwrap();
        let unfinished: Vec<_> = registry.unfinished().unwrap();
        assert_eq!(unfinished.len(), 3);
        assert_eq!((unfinished[1].order.clone(), unfinished[1].ended_at), (json!(1), None));
        assert_eq!(registry.count().unwrap()[0], (Status::Queued, 3));
    }

    #[test]
    fn what_others_brought_to_its_end_is_complete_unless_it_was_touched_since() {
        let registry = Registry::in_memory().unwrap();
        let new = |id: &str| NewRun { id: id.into(), subject: "x".into(), input: json!({}) };
        let (past, future) = (SystemTime::UNIX_EPOCH, SystemTime::now() + Duration::from_secs(60));
        for id in ["live", "rests", "older"] {
            registry.add(&new(id)).unwrap();
        }
        for id in ["rests", "older"] {
            registry.set(id, Status::Error, Some("why"), &Value::Null).unwrap();
        }
        for (id, ended) in [("live", future), ("rests", future), ("older", past), ("new", past)] {
            registry.adopt(&new(id), &json!(id), past, ended).unwrap();
        }
        let run = |id| registry.get(id).unwrap().unwrap();
        let stands = ["live", "rests", "older", "new"].map(|id| run(id).status);
        use Status::{Complete, Error, Queued};
        assert_eq!(stands, [Queued, Complete, Error, Complete]);
        assert_eq!((run("rests").error, run("rests").outcome), (None, json!("rests")));
    }

    #[test]
    fn a_file_of_another_program_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 7).unwrap();
        let error = Registry::open(&path).unwrap_err().to_string();
        assert!(error.contains("version is 7"), "{error}");
    }
}
