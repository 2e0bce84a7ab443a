//! The tables and their migrations.

mod to_2;

use rusqlite::{Connection, TransactionBehavior};

use crate::error::SchemaStatus;

/// Application id that identifies our files, stored in the SQLite file header: "gSto".
pub(super) const APPLICATION_ID: i64 = 0x6753_746f;

/// Migration `n` upgrades the tables from version `n` to `n + 1`. Never change a migration that has been released.
const MIGRATIONS: &[fn(&Connection) -> rusqlite::Result<()>] =
    &[|connection| connection.execute_batch(include_str!("schema/1.sql")), to_2::migrate];

pub(super) const NEWEST: i64 = MIGRATIONS.len() as i64;

/// Creates the tables or migrates them to the newest version, unless they belong to another program or are too new.
pub(super) fn prepare(connection: &mut Connection) -> rusqlite::Result<SchemaStatus> {
    if let Some(found) = inspect(connection)? {
        return Ok(found);
    }
    // Another process may be migrating at the same time, so check again under the lock.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if let Some(found) = inspect(&transaction)? {
        return Ok(found);
    }
    let version = pragma_number(&transaction, "user_version")?;
    for migrate in MIGRATIONS.iter().skip(usize::try_from(version).unwrap_or(0)) {
        migrate(&transaction)?;
    }
    transaction.pragma_update(None, "user_version", NEWEST)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.commit()?;
    Ok(SchemaStatus::Current)
}

/// Returns the state of the tables, or `None` if they must be created or migrated.
fn inspect(connection: &Connection) -> rusqlite::Result<Option<SchemaStatus>> {
    let owner = pragma_number(connection, "application_id")?;
    let version = pragma_number(connection, "user_version")?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (owner, version) {
        (APPLICATION_ID, NEWEST) => Some(SchemaStatus::Current),
        (APPLICATION_ID, version) if version > NEWEST => Some(SchemaStatus::TooNew(version)),
        (0, 0) if tables == 0 => None,
        (APPLICATION_ID, _) => None,
        _ => Some(SchemaStatus::Foreign),
    })
}

fn pragma_number(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}
