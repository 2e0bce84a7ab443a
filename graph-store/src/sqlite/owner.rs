//! The owner of leases: a database handle with its clones, identified by a locked file next to the database.

use std::{
    collections::HashMap,
    fs::{self, File, TryLockError},
    hash::{BuildHasher, RandomState},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::error::OpenError;

/// The identity under which other processes know this database handle, and the threads that the handle has leased.
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
                // Another process found the file before it was locked, and removed it as orphaned. The loop then
                // creates a file with another name.
                Ok(_) if !path.exists() => {}
                Ok(file) => return Ok(Self { name, path, _file: file, tokens: Mutex::default() }),
                Err(source) => return Err(OpenError::OwnerFile { path, source }),
            }
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the lease token of a thread, if this database handle holds the thread's lease.
    pub(super) fn token(&self, thread: &str) -> Option<i64> {
        self.lock().get(thread).copied()
    }

    /// Locks the map from leased threads to their lease tokens.
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<String, i64>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // If this fails, the next process that finds the unlocked file removes it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns whether the owner still has its database open. If not, removes the owner file.
pub(super) fn is_alive_else_remove(database: &Path, owner: &str) -> bool {
    let path = owner_file(database, owner);
    let Ok(file) = File::open(&path) else { return false };
    // A shared lock, because another process may be checking the same owner. An exclusive lock would make a dead owner
    // appear alive to that process.
    match file.try_lock_shared() {
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

/// Returns a random number.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}
