//! Deletes the directories of runs.

use std::{fs, io, path::Path};

use app_support::lock::{DirLock, LockError};
use graph_server::http::Problem;

/// Prefix of directories that are being deleted. It makes their names invalid as run ids, so that a run whose deletion
/// was interrupted does not appear again.
const DELETED_PREFIX: &str = ".deleted-";

/// Deletes the directory of a run, unless another process is executing the run.
pub(super) fn delete_dir(dir: &Path) -> Result<(), Problem> {
    if !dir.is_dir() {
        return Ok(());
    }
    let lock = DirLock::exclusive(dir).map_err(|error| match error {
        LockError::Held(_) => Problem::conflict("another process is executing the run"),
        LockError::File(error) => Problem::internal(&error),
    })?;
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let renamed = dir.with_file_name(format!("{DELETED_PREFIX}{name}"));
    let deleted = fs::rename(dir, &renamed).and_then(|()| fs::remove_dir_all(&renamed));
    drop(lock);
    deleted.map_err(|error| Problem::internal(&error))
}

/// Deletes the directories whose deletion was interrupted.
pub(super) fn finish_deletions(runs_dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(runs_dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(DELETED_PREFIX) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}
