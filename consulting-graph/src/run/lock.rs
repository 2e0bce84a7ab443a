//! Lock on a run directory. It ensures that only one process executes the run.

use std::{
    fs::{File, TryLockError},
    io::ErrorKind,
    path::PathBuf,
};

use super::{error::RunError, run_dir::Run};

/// Name of the lock file. The file is never deleted. The lock is released at the latest when the process ends.
const LOCK_FILE: &str = "lock";

/// A lock on a run, released on drop.
#[derive(Debug)]
pub(super) struct RunLock {
    _file: File,
}

impl Run {
    /// Takes a shared lock that keeps other processes from executing the run while this process reads it. Returns
    /// `None` if there is no lock file, because a run that was never executed needs no lock.
    pub(super) fn lock_shared(&self) -> Result<Option<RunLock>, RunError> {
        let path = self.dir.join(LOCK_FILE);
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(TryLockError::Error),
        };
        self.acquire(path, file, File::try_lock_shared).map(Some)
    }

    /// Takes the exclusive lock. Must be called before any file of the run is opened for writing.
    pub(super) fn lock_exclusive(&self) -> Result<RunLock, RunError> {
        let path = self.dir.join(LOCK_FILE);
        let file = File::options().create(true).append(true).open(&path);
        self.acquire(path, file.map_err(TryLockError::Error), File::try_lock)
    }

    fn acquire(
        &self,
        path: PathBuf,
        file: Result<File, TryLockError>,
        lock: fn(&File) -> Result<(), TryLockError>,
    ) -> Result<RunLock, RunError> {
        let result = file.and_then(|file| {
            lock(&file)?;
            Ok(RunLock { _file: file })
        });
        result.map_err(|error| match error {
            TryLockError::WouldBlock => RunError::Locked(self.dir.clone()),
            TryLockError::Error(source) => RunError::Io { path, source },
        })
    }
}
