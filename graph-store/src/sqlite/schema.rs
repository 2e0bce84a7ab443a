//! The tables, and how older ones become newer ones.

mod to_2;

use rusqlite::{Connection, TransactionBehavior};

/// Says in the file's header whose database it is: "gSto".
pub(super) const APPLICATION_ID: i64 = 0x6753_746f;

/// What makes version `n + 1` of the tables out of version `n`. Never change one that was released.
const MIGRATIONS: &[fn(&Connection) -> rusqlite::Result<()>] =
    &[|connection| connection.execute_batch(include_str!("schema/1.sql")), to_2::migrate];

pub(super) const NEWEST: i64 = MIGRATIONS.len() as i64;

/// What a file is to us.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Ours,
    Foreign,
    TooNew(i64),
}

/// Brings the tables to the newest version, unless they are not ours or newer still.
pub(super) fn prepare(connection: &mut Connection) -> rusqlite::Result<Found> {
    if let Some(found) = look(connection)? {
        return Ok(found);
    }
    // Another process may do the same at the same time: it is looked again under the lock.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if let Some(found) = look(&transaction)? {
        return Ok(found);
    }
    let version = number(&transaction, "user_version")?;
    for migrate in MIGRATIONS.iter().skip(usize::try_from(version).unwrap_or(0)) {
        migrate(&transaction)?;
    }
    transaction.pragma_update(None, "user_version", NEWEST)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.commit()?;
    Ok(Found::Ours)
}

/// `None` if the tables are to be made or to be migrated.
fn look(connection: &Connection) -> rusqlite::Result<Option<Found>> {
    let owner = number(connection, "application_id")?;
    let version = number(connection, "user_version")?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (owner, version) {
        (APPLICATION_ID, NEWEST) => Some(Found::Ours),
        (APPLICATION_ID, version) if version > NEWEST => Some(Found::TooNew(version)),
        (0, 0) if tables == 0 => None,
        (APPLICATION_ID, _) => None,
        _ => Some(Found::Foreign),
    })
}

fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}
