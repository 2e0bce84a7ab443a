//! Leases ensure that at most one run at a time works on a thread, across all processes.
//!
//! A lease is a row that contains the name of its owner. An owner is an open database. Its name is part of the name
//! of a file next to the database, the owner file, which the owner keeps locked for as long as the database is
//! open. The operating system releases the lock when the process ends, however it ends, so the leased threads
//! become available immediately; there is no lease timeout to wait for.

use std::{
    collections::{HashMap, hash_map::Entry},
    fs::{self, File, TryLockError},
    hash::{BuildHasher, RandomState},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use graph_core::checkpoint::CheckpointError;
use rusqlite::{OptionalExtension, params};

use super::{database::Sqlite, failure::Failure, writer::Session};
use crate::error::OpenError;

/// The identity under which other processes know this open database, and the threads that it has leased.
#[derive(Debug)]
pub(super) struct Owner {
    name: String,
    path: PathBuf,
    /// The owner file, which is locked for as long as this handle is open.
    _file: File,
    // A std mutex, because it is only locked briefly.
    tokens: Mutex<HashMap<String, i64>>,
}

impl Owner {
    pub(super) fn new(database: &Path) -> Result<Self, OpenError> {
        remove_dead_owner_files(database);
        loop {
            let name = format!("{:016x}", random());
            let path = owner_file(database, &name);
            let locked = || -> io::Result<File> {
                let file = File::create_new(&path)?;
                file.lock()?;
                Ok(file)
            };
            match locked() {
                // Another process may have found the file before it was locked, and may have removed it as
                // orphaned.
                Ok(_) if !path.exists() => {}
                Ok(file) => return Ok(Self { name, path, _file: file, tokens: Mutex::default() }),
                Err(source) => return Err(OpenError::OwnerFile { path, source }),
            }
        }
    }

    /// Returns the lease token of a thread, if this database handle holds the thread's lease.
    pub(super) fn token(&self, thread: &str) -> Option<i64> {
        self.lock().get(thread).copied()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, i64>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // If this fails, the next process that finds the unlocked file removes it.
        let _ = fs::remove_file(&self.path);
    }
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
    let holder: Option<String> = connection
        .prepare_cached("SELECT owner FROM lease WHERE thread = ?1")?
        .query_row([thread], |row| row.get(0))
        .optional()?;
    // A row with our own name is left over from a failed release, because [`LeaseGuard::claim`] has already
    // rejected threads that are leased by this open database.
    if holder.is_some_and(|it| it != owner && is_alive_else_remove(database, &it)) {
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
    /// Claims the thread within this open database. Returns `None` if this open database has already leased it.
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
        self.database.owner().lock().remove(&self.thread);
        let (thread, token) = (std::mem::take(&mut self.thread), self.token);
        // The release is not awaited. The next request to lease the thread follows it in the queue.
        self.database.writer().send(move |session| {
            release(session, &thread, token).map_err(Failure::<CheckpointError>::from)
        });
    }
}

impl Sqlite {
    pub(super) fn owner_name(&self) -> String {
        self.owner().name.clone()
    }
}

/// Returns whether the owner still has its database open. If not, removes the owner file.
fn is_alive_else_remove(database: &Path, owner: &str) -> bool {
    let path = owner_file(database, owner);
    let Ok(file) = File::open(&path) else { return false };
    match file.try_lock() {
        Ok(()) => {
            let _ = fs::remove_file(&path);
            false
        }
        // An owner in an unknown state counts as alive, because an unavailable thread is better than two runs on
        // one thread.
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => true,
    }
}

/// Removes the owner files of processes that terminated without removing them.
fn remove_dead_owner_files(database: &Path) {
    let (Some(dir), Some(prefix)) =
        (database.parent(), owner_file(database, "").file_name().map(ToOwned::to_owned))
    else {
        return;
    };
    // A file that cannot be listed or removed stays; it is small and harmless.
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if let Some(owner) = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes()) {
            is_alive_else_remove(database, &String::from_utf8_lossy(owner));
        }
    }
}

fn owner_file(database: &Path, owner: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(format!("-owner-{owner}"));
    PathBuf::from(name)
}

fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
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
