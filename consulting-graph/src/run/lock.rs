//! One process at a time is at work on a run.

use std::{
    fs::{File, TryLockError},
    io::ErrorKind,
    path::PathBuf,
};

use super::{Run, RunProblem};

/// The file that is locked. It stays; the lock goes with the process that holds it.
const LOCK: &str = "lock";

/// Somebody is at work on a run, until this is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Run {
    /// Keeps others from writing to the run while this process reads it; nothing in its folder is changed, and a run
    /// that nobody was ever at work on has nothing to lock.
    pub(super) fn lock_to_read(&self) -> Result<Option<Lock>, RunProblem> {
        let path = self.folder.join(LOCK);
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(TryLockError::Error),
        };
        self.locked(path, file, File::try_lock_shared).map(Some)
    }

    /// Takes the run for this process, before anything in its folder is opened to be written.
    pub(super) fn lock(&self) -> Result<Lock, RunProblem> {
        let path = self.folder.join(LOCK);
        let file = File::options().create(true).append(true).open(&path);
        self.locked(path, file.map_err(TryLockError::Error), File::try_lock)
    }

    fn locked(
        &self,
        path: PathBuf,
        file: Result<File, TryLockError>,
        lock: fn(&File) -> Result<(), TryLockError>,
    ) -> Result<Lock, RunProblem> {
        let locked = file.and_then(|file| {
            lock(&file)?;
            Ok(Lock { _file: file })
        });
        locked.map_err(|error| match error {
            TryLockError::WouldBlock => RunProblem::Busy(self.folder.clone()),
            TryLockError::Error(source) => RunProblem::File { path, source },
        })
    }
}
