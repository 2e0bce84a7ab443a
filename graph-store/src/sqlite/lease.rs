//! Leases ensure that at most one run at a time works on a thread, across all processes.
//!
//! A lease is a row that contains the name of its owner. An owner is a database handle together with its clones. Next
//! to the database is an owner file, whose name contains the owner's name. The owner keeps this file locked while it
//! has the database open. The operating system releases the lock when the process ends, for whatever reason, so the
//! leased threads become available immediately; there is no lease timeout to wait for.

use std::{
    collections::{HashSet, hash_map::Entry},
    path::Path,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use graph_core::checkpoint::CheckpointError;
use rusqlite::{OptionalExtension, params};

use super::{
    database::Sqlite,
    failure::Failure,
    owner::{is_alive_else_remove, random},
    writer::Session,
};

/// Tokens of leases that this process has dropped and whose rows are not deleted yet. Another handle of this process
/// may lease their threads.
static RELEASING: LazyLock<Mutex<HashSet<i64>>> = LazyLock::new(Mutex::default);

fn releasing() -> MutexGuard<'static, HashSet<i64>> {
    RELEASING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leases a thread with this token, unless another live owner has leased it.
pub(super) fn acquire(
    session: &mut Session,
    database: &Path,
    owner: &str,
    thread: &str,
    token: i64,
) -> Result<(), Failure<CheckpointError>> {
    let connection = &session.connection;
    let holder: Option<(String, i64)> = connection
        .prepare_cached("SELECT owner, token FROM lease WHERE thread = ?1")?
        .query_row([thread], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    // A row with our own name can only be left over from a failed release, because [`LeaseGuard::claim`] has already
    // rejected threads that this owner has leased.
    let is_held = |(holder, token): (String, i64)| {
        holder != owner && !releasing().contains(&token) && is_alive_else_remove(database, &holder)
    };
    if holder.is_some_and(is_held) {
        return Err(CheckpointError::Busy { thread: thread.to_owned() }.into());
    }
    connection
        .prepare_cached("INSERT OR REPLACE INTO lease (thread, token, owner) VALUES (?1, ?2, ?3)")?
        .execute(params![thread, token, owner])?;
    session.cache.set_token(thread, token);
    Ok(())
}

/// Returns whether the thread is still leased with this token.
pub(super) fn is_current(
    session: &mut Session,
    thread: &str,
    token: i64,
) -> rusqlite::Result<bool> {
    if session.cache.token(thread) == Some(token) {
        return Ok(true);
    }
    // The token is compared here and not in SQL. If it were a parameter, SQLite would prepare the statement again
    // each time.
    let current: Option<i64> = session
        .connection
        .prepare_cached("SELECT token FROM lease WHERE thread = ?1")?
        .query_row([thread], |row| row.get(0))
        .optional()?;
    if let Some(current) = current {
        session.cache.set_token(thread, current);
    }
    Ok(current == Some(token))
}

/// Releases the thread if it is still leased with this token.
fn release(session: &mut Session, thread: &str, token: i64) -> rusqlite::Result<()> {
    session.cache.remove_token(thread);
    session
        .connection
        .prepare_cached("DELETE FROM lease WHERE thread = ?1 AND token = ?2")?
        .execute(params![thread, token])?;
    releasing().remove(&token);
    Ok(())
}

/// A thread that is leased or about to be leased. Dropping the guard releases the thread.
#[derive(Debug)]
pub(super) struct LeaseGuard {
    database: Sqlite,
    thread: String,
    pub(super) token: i64,
}

impl LeaseGuard {
    /// Claims the thread for one caller among the clones of this database handle. Returns `None` if one of the clones
    /// has already claimed or leased it.
    pub(super) fn claim(database: &Sqlite, thread: &str) -> Option<Self> {
        // Tokens are random instead of sequential, because a lease row may be deleted and inserted again, and must
        // then have a different token.
        let token = (random() >> 1) as i64;
        match database.owner().lock().entry(thread.to_owned()) {
            Entry::Occupied(_) => None,
            Entry::Vacant(free) => {
                free.insert(token);
                Some(Self { database: database.clone(), thread: thread.to_owned(), token })
            }
        }
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        releasing().insert(self.token);
        self.database.owner().lock().remove(&self.thread);
        let (thread, token) = (std::mem::take(&mut self.thread), self.token);
        // The row is deleted later. The queue executes later requests of this handle after the deletion; other handles
        // of this process check `RELEASING`.
        self.database.writer().send(move |session| {
            release(session, &thread, token).map_err(Failure::<CheckpointError>::from)
        });
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rusqlite::Connection;

    use super::{acquire, is_current, release};
    use crate::sqlite::{schema, thread_cache::ThreadCache, writer::Session};

    #[test]
    fn a_thread_is_leased_until_it_is_released() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::prepare(&mut connection).unwrap();
        let mut session = Session { connection, cache: ThreadCache::default() };
        acquire(&mut session, Path::new("none"), "me", "thread", 7).unwrap();
        for _ in 0..2 {
            assert!(is_current(&mut session, "thread", 7).unwrap());
            assert!(!is_current(&mut session, "thread", 8).unwrap());
            assert!(!is_current(&mut session, "other", 7).unwrap());
            // Forces the next check to read the database.
            session.cache.clear();
        }
        assert!(is_current(&mut session, "thread", 7).unwrap());
        release(&mut session, "thread", 7).unwrap();
        assert!(!is_current(&mut session, "thread", 7).unwrap());
    }
}
