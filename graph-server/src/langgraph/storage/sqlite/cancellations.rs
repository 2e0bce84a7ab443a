//! Requests to cancel runs. They are stored, so that they survive a crash of the process.

use rusqlite::{Connection, params};
use uuid::Uuid;

use crate::langgraph::cancellation::Cancellation;

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS cancellations (
    run TEXT PRIMARY KEY,
    action TEXT NOT NULL,
    reason TEXT NOT NULL
) STRICT;";

/// Creates the table, and deletes the requests to cancel runs that have ended.
pub(super) fn open(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(SCHEMA)?;
    connection.execute_batch(
        "DELETE FROM cancellations WHERE run NOT IN \
         (SELECT id FROM documents WHERE kind = 'run' AND status IN ('pending', 'running'))",
    )
}

/// Stores a request, replacing an earlier one for the same run.
pub(super) fn put(
    connection: &Connection,
    run: Uuid,
    cancellation: &Cancellation,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT OR REPLACE INTO cancellations (run, action, reason) VALUES (?1, ?2, ?3)",
    )?;
    statement.execute(params![run.to_string(), cancellation.action.name(), cancellation.reason])?;
    Ok(())
}

/// Deletes the request to cancel a run that has ended.
pub(super) fn delete(connection: &Connection, run: Uuid) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached("DELETE FROM cancellations WHERE run = ?1")?;
    statement.execute(params![run.to_string()])?;
    Ok(())
}
