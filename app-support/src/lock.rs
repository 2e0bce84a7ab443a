//! Lock on a directory, so that only one process works in it.

use std::{
    fs::{File, TryLockError},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use crate::files::FileError;

/// Name of the lock file. The file is never deleted, so its existence does not mean that the directory is locked: the
/// lock is released at the latest when the process ends.
const LOCK_FILE: &str = "lock";

/// A lock on a directory, released on drop.
#[derive(Debug)]
pub struct DirLock {
    file: File,
}

/// The error returned when a directory cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds a conflicting lock. The field is the directory.
    #[error("another process is using {}; wait until it finishes, or stop it", .0.display())]
    Held(PathBuf),
    /// The lock file cannot be opened or locked.
    #[error(transparent)]
    File(#[from] FileError),
}

impl DirLock {
    /// Takes the exclusive lock.
    pub fn exclusive(dir: &Path) -> Result<Self, LockError> {
        let path = dir.join(LOCK_FILE);
        let file = File::options().create(true).append(true).open(&path);
        let file = file.map_err(FileError::at(&path))?;
        Self::acquire(dir, &path, file, File::try_lock)
    }

    /// Takes a shared lock, which keeps other processes from taking the exclusive lock. Returns `None` if there is no
    /// lock file, because in that case no process has ever taken the exclusive lock.
    pub fn shared(dir: &Path) -> Result<Option<Self>, LockError> {
        let path = dir.join(LOCK_FILE);
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(FileError::at(&path))?,
        };
        Self::acquire(dir, &path, file, File::try_lock_shared).map(Some)
    }

    fn acquire(
        dir: &Path,
        path: &Path,
        file: File,
        lock: fn(&File) -> Result<(), TryLockError>,
    ) -> Result<Self, LockError> {
        match lock(&file) {
            Ok(()) => Ok(Self { file }),
            Err(TryLockError::WouldBlock) => Err(LockError::Held(dir.to_owned())),
            Err(TryLockError::Error(source)) => Err(FileError::at(path)(source).into()),
        }
    }
}

impl Drop for DirLock {
    /// Releases the lock explicitly. Closing the file is not enough: a child process that another thread is spawning
    /// holds a copy of the descriptor until it calls `exec`.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::{DirLock, LockError};

    #[test]
    fn exclusive_locks_exclude_all_others() {
        let dir = tempfile::tempdir().unwrap();
        assert!(DirLock::shared(dir.path()).unwrap().is_none());
        let exclusive = DirLock::exclusive(dir.path()).unwrap();
        assert!(matches!(DirLock::exclusive(dir.path()), Err(LockError::Held(_))));
        assert!(matches!(DirLock::shared(dir.path()), Err(LockError::Held(_))));
        drop(exclusive);
        let shared = [0, 1].map(|_| DirLock::shared(dir.path()).unwrap().unwrap());
        assert!(matches!(DirLock::exclusive(dir.path()), Err(LockError::Held(_))));
        drop(shared);
        assert!(DirLock::exclusive(dir.path()).is_ok());
        assert!(matches!(DirLock::exclusive(&dir.path().join("no")), Err(LockError::File(_))));
    }
}
