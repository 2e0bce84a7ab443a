//! Stores the events of runs in the registry's database.

use std::{fmt, io};

use rusqlite::params;
use serde_json::{Map, Value};

use crate::{registry::Registry, run::RunEvent, runner::RunnerError};

/// The stored events of all runs.
#[derive(Clone)]
pub(super) struct EventLog(Registry);

impl EventLog {
    pub(super) fn new(registry: Registry) -> Self {
        Self(registry)
    }

    /// Returns whether any events of the run are stored.
    pub(super) fn has_events(&self, run: &str) -> io::Result<bool> {
        Ok(!self.read(run, 0, 1)?.is_empty())
    }

    /// Returns up to `limit` events of the run with sequence numbers greater than `after`.
    pub(super) fn read(&self, run: &str, after: u64, limit: usize) -> io::Result<Vec<RunEvent>> {
        let connection = self.0.lock();
        let read = || -> rusqlite::Result<Vec<RunEvent>> {
            let sql =
                "SELECT seq, data FROM events WHERE run = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
            let mut statement = connection.prepare_cached(sql)?;
            let (after, limit) = (i64::try_from(after), i64::try_from(limit));
            let (after, limit) = (after.unwrap_or(i64::MAX), limit.unwrap_or(i64::MAX));
            let event = |row: &rusqlite::Row<'_>| {
                let (seq, data): (i64, String) = (row.get(0)?, row.get(1)?);
                Ok(RunEvent { seq: seq.unsigned_abs(), data: data.into() })
            };
            statement.query_map(params![run, after, limit], event)?.collect()
        };
        read().map_err(io::Error::other)
    }

    /// Stores events under the next sequence numbers of the run, and returns them with these numbers.
    pub(super) async fn append(
        &self,
        run: &str,
        events: Vec<Value>,
    ) -> Result<Vec<RunEvent>, RunnerError> {
        let (registry, run) = (self.0.clone(), run.to_owned());
        let stored = tokio::task::spawn_blocking(move || append(&registry, &run, events)).await;
        let failed = |error: &dyn fmt::Display| {
            RunnerError(format!("cannot store the events of the run: {error}"))
        };
        stored.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
    }
}

fn append(
    registry: &Registry,
    run: &str,
    events: Vec<Value>,
) -> Result<Vec<RunEvent>, rusqlite::Error> {
    let mut connection = registry.lock();
    let transaction = connection.transaction()?;
    let sql = "SELECT coalesce(max(seq), 0) FROM events WHERE run = ?1";
    let last: i64 = transaction.query_row(sql, [run], |row| row.get(0))?;
    let mut stored = Vec::new();
    for (seq, event) in (last + 1..).zip(events) {
        let mut numbered = Map::from_iter([("seq".to_owned(), Value::from(seq))]);
        if let Value::Object(event) = event {
            numbered.extend(event);
        }
        let data = Value::Object(numbered).to_string();
        let sql = "INSERT INTO events (run, seq, data) VALUES (?1, ?2, ?3)";
        transaction.prepare_cached(sql)?.execute(params![run, seq, data])?;
        stored.push(RunEvent { seq: seq.unsigned_abs(), data: data.into() });
    }
    transaction.commit()?;
    Ok(stored)
}
