//! One process at a time is at work on a run.

use std::fs::{File, TryLockError};

use super::{Run, RunProblem};

/// The file that is locked. It stays; the lock goes with the process that holds it.
const LOCK: &str = "lock";

/// Somebody is at work on a run, until this is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Run {
    /// Takes the run for this process, before anything in its folder is opened to be written.
    pub(super) fn lock(&self) -> Result<Lock, RunProblem> {
        let path = self.folder.join(LOCK);
        let file = File::options().create(true).append(true).open(&path);
        let locked = file.map_err(TryLockError::Error).and_then(|file| {
            file.try_lock()?;
            Ok(Lock { _file: file })
        });
        locked.map_err(|error| match error {
            TryLockError::WouldBlock => RunProblem::Busy(self.folder.clone()),
            TryLockError::Error(source) => RunProblem::File { path, source },
        })
    }
}
