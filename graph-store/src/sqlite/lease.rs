//! Leases: one run at a time works on a thread, also among processes.
//!
//! A lease is a row with its owner's name. The owner is an open database; its name is that of a file beside the
//! database, which it holds locked as long as it lives. The system takes the lock away when the process ends,
//! however it ends, so a thread is free again at once: nobody waits for a lease to run out.

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

/// Who this open database is to others, and what it holds.
#[derive(Debug)]
pub(super) struct Owner {
    name: String,
    path: PathBuf,
    /// Locked while it is open.
    _file: File,
    // A std mutex: it is held for a moment only.
    tokens: Mutex<HashMap<String, i64>>,
}

impl Owner {
    pub(super) fn new(database: &Path) -> Result<Self, OpenError> {
        remove_dead(database);
        loop {
            let name = format!("{:016x}", random());
            let path = file_of(database, &name);
            let locked = || -> io::Result<File> {
                let file = File::create_new(&path)?;
                file.lock()?;
                Ok(file)
            };
            match locked() {
                // Somebody who cleans up may have found it before it was locked, and removed it.
                Ok(_) if !path.exists() => {}
                Ok(file) => return Ok(Self { name, path, _file: file, tokens: Mutex::default() }),
                Err(source) => return Err(OpenError::Owner { path, source }),
            }
        }
    }

    /// The token of a thread that is held here.
    pub(super) fn token(&self, thread: &str) -> Option<i64> {
        self.lock().get(thread).copied()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, i64>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // If this fails, the file is found unlocked by the next who looks, and removed then.
        let _ = fs::remove_file(&self.path);
    }
}

/// Takes a thread with this token, unless somebody else who lives has it.
pub(super) fn take(
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
    // A row of our own is a leftover whose removal failed: a thread that is held here was refused before.
    if holder.is_some_and(|it| it != owner && lives(database, &it)) {
        return Err(CheckpointError::Busy { thread: thread.to_owned() }.into());
    }
    connection
        .prepare_cached("INSERT OR REPLACE INTO lease (thread, token, owner) VALUES (?1, ?2, ?3)")?
        .execute(params![thread, token, owner])?;
    session.known.taken(thread, token);
    Ok(())
}

/// Whether the thread is still the holder's of this token.
pub(super) fn holds(session: &mut Session, thread: &str, token: i64) -> rusqlite::Result<bool> {
    if session.known.token(thread) == Some(token) {
        return Ok(true);
    }
    // Compared here: with the token as a parameter SQLite would prepare the statement anew each time.
    let held: Option<i64> = session
        .connection
        .prepare_cached("SELECT token FROM lease WHERE thread = ?1")?
        .query_row([thread], |row| row.get(0))
        .optional()?;
    if let Some(held) = held {
        session.known.taken(thread, held);
    }
    Ok(held == Some(token))
}

/// Gives the thread free that is held with this token.
fn release(session: &mut Session, thread: &str, token: i64) -> rusqlite::Result<()> {
    session.known.released(thread);
    session
        .connection
        .prepare_cached("DELETE FROM lease WHERE thread = ?1 AND token = ?2")?
        .execute(params![thread, token])?;
    Ok(())
}

/// A thread that is held, or about to be taken; gives it free when it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    database: Sqlite,
    thread: String,
    pub(super) token: i64,
}

impl Held {
    /// Takes the thread within this open database; `None` if it is held here.
    pub(super) fn new(database: &Sqlite, thread: &str) -> Option<Self> {
        // Random, and not counted: a row may go and come again, and its token must be another one.
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

impl Drop for Held {
    fn drop(&mut self) {
        self.database.owner().lock().remove(&self.thread);
        let (thread, token) = (std::mem::take(&mut self.thread), self.token);
        // Not waited for: whoever takes the thread next comes after it in the queue.
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

/// Whether the owner of this name still has its database open. The file of one who has not is removed.
fn lives(database: &Path, owner: &str) -> bool {
    let path = file_of(database, owner);
    let Ok(file) = File::open(&path) else { return false };
    match file.try_lock() {
        Ok(()) => {
            let _ = fs::remove_file(&path);
            false
        }
        // What cannot be found out counts as alive: better a thread that waits than two runs on it.
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => true,
    }
}

/// Removes the files of owners who are gone without having removed them.
fn remove_dead(database: &Path) {
    let (Some(folder), Some(prefix)) =
        (database.parent(), file_of(database, "").file_name().map(ToOwned::to_owned))
    else {
        return;
    };
    // What cannot be listed or removed stays: it is a small file, and no harm.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if let Some(owner) = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes()) {
            lives(database, &String::from_utf8_lossy(owner));
        }
    }
}

fn file_of(database: &Path, owner: &str) -> PathBuf {
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

    use super::{holds, release, take};
    use crate::sqlite::{known::Known, schema, writer::Session};

    #[test]
    fn a_thread_is_held_until_it_is_given_free() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::prepare(&mut connection).unwrap();
        let mut session = Session { connection, known: Known::default() };
        take(&mut session, Path::new("none"), "me", "thread", 7).unwrap();
        for _ in 0..2 {
            assert!(holds(&mut session, "thread", 7).unwrap());
            assert!(!holds(&mut session, "thread", 8).unwrap());
            assert!(!holds(&mut session, "other", 7).unwrap());
            // What is known is asked for anew.
            session.known.forget();
        }
        assert!(holds(&mut session, "thread", 7).unwrap());
        release(&mut session, "thread", 7).unwrap();
        assert!(!holds(&mut session, "thread", 7).unwrap());
    }
}
