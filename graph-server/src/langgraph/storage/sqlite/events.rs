//! Events of resumable runs in SQLite, so that clients can read them after a restart.

use async_trait::async_trait;
use rusqlite::{Connection, params};
use serde_json::Value;
use uuid::Uuid;

use super::documents::SqliteDocuments;
use crate::langgraph::{
    error::{ApiError, ApiResult},
    storage::{Claim, EventLog, StoredEvent},
};

/// Maximum number of events that are read at once.
const PAGE: i64 = 500;
/// Time for which the events of an ended run are kept, in seconds.
const RETENTION_SECONDS: i64 = 3600;
/// Maximum number of recent runs of a thread whose events are read.
const MAX_RUNS: i64 = 16;

/// The last row of a run that has ended contains its output instead of an event.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS events (
    run TEXT NOT NULL,
    seq INTEGER NOT NULL,
    thread TEXT NOT NULL,
    body TEXT,
    output TEXT,
    created_at INTEGER NOT NULL DEFAULT (unixepoch()),
    PRIMARY KEY (run, seq)
) STRICT;
CREATE INDEX IF NOT EXISTS events_by_thread ON events (thread, run, seq);
CREATE INDEX IF NOT EXISTS events_by_end ON events (created_at) WHERE output IS NOT NULL;";

/// Creates the table. Deletes the events of ended runs whose output is missing because the process was killed.
pub(super) fn open(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(SCHEMA)?;
    connection.execute_batch(
        "DELETE FROM events WHERE run NOT IN (SELECT run FROM events WHERE output IS NOT NULL) \
             AND run NOT IN \
                 (SELECT id FROM documents WHERE kind = 'run' AND status IN ('pending', 'running'))",
    )
}

/// Stores the output of a run that has ended, if the run has events.
pub(super) fn end(connection: &Connection, run: Uuid, output: &Value) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO events (run, seq, thread, output) \
         SELECT run, seq + 1, thread, ?2 FROM events WHERE run = ?1 ORDER BY seq DESC LIMIT 1",
    )?;
    statement.execute(params![run.to_string(), output.to_string()])?;
    Ok(())
}

fn insert(
    connection: &mut Connection,
    claim: &Claim,
    events: &[(u64, String)],
) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let (run, thread) = (claim.run.to_string(), claim.thread.to_string());
    for (seq, body) in events {
        let mut statement = transaction.prepare_cached(
            "INSERT OR IGNORE INTO events (run, seq, thread, body) VALUES (?1, ?2, ?3, ?4)",
        )?;
        statement.execute(params![run, seq.cast_signed(), thread, body])?;
    }
    transaction.commit()
}

#[async_trait]
impl EventLog for SqliteDocuments {
    async fn append(&self, claim: &Claim, events: &[(u64, String)]) -> ApiResult<bool> {
        let inserted = insert(&mut self.lock(), claim, events);
        // The run continues: connected clients receive its events from memory.
        if let Err(error) = inserted {
            tracing::warn!(run = %claim.run, %error, "cannot store events of a run");
        }
        Ok(true)
    }

    async fn read(&self, run: Uuid, after: u64) -> ApiResult<Vec<StoredEvent>> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(
            "SELECT seq, body, output FROM events WHERE run = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
        )?;
        let mut rows = statement.query(params![run.to_string(), after.cast_signed(), PAGE])?;
        let mut events = Vec::new();
        while let Some(row) = rows.next()? {
            let output: Option<String> = row.get(2)?;
            events.push(match output {
                None => {
                    let seq: i64 = row.get(0)?;
                    StoredEvent::Item { seq: seq.cast_unsigned(), body: row.get(1)? }
                }
                Some(output) => {
                    let output = serde_json::from_str(&output);
                    StoredEvent::End { output: output.map_err(|error| ApiError::internal(&error))? }
                }
            });
        }
        Ok(events)
    }

    async fn runs_of_thread(&self, thread: Uuid) -> ApiResult<Vec<Uuid>> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(
            "SELECT run FROM (\
                 SELECT run, min(seq) AS first FROM events WHERE thread = ?1 \
                 GROUP BY run ORDER BY first DESC LIMIT ?2\
             ) ORDER BY first",
        )?;
        let mut rows = statement.query(params![thread.to_string(), MAX_RUNS])?;
        let mut runs = Vec::new();
        while let Some(row) = rows.next()? {
            let run: String = row.get(0)?;
            runs.push(Uuid::parse_str(&run).map_err(|error| ApiError::internal(&error))?);
        }
        Ok(runs)
    }

    async fn delete_thread(&self, thread: Uuid) -> ApiResult<()> {
        let delete = "DELETE FROM events WHERE thread = ?1";
        self.lock().prepare_cached(delete)?.execute([thread.to_string()])?;
        Ok(())
    }

    async fn delete_old(&self) -> ApiResult<()> {
        let delete = "DELETE FROM events WHERE run IN \
             (SELECT run FROM events WHERE output IS NOT NULL AND created_at < unixepoch() - ?1)";
        self.lock().prepare_cached(delete)?.execute([RETENTION_SECONDS])?;
        Ok(())
    }
}
