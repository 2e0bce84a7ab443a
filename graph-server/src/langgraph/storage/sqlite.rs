//! Storage in a SQLite file, for one process.

mod cancellations;
mod documents;
mod events;
mod queue;
mod search;

use std::{
    fs::{File, TryLockError},
    path::Path,
    sync::Arc,
};

use self::{documents::SqliteDocuments, queue::SqliteQueue};
use super::parts::Storage;

/// The error returned when the database cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(in crate::langgraph) enum OpenError {
    #[error("{path}: {cause}")]
    Database { path: String, cause: rusqlite::Error },
    #[error("cannot create or lock the file {path}: {cause}")]
    LockFile { path: String, cause: std::io::Error },
    #[error("{path} is locked by another server; stop that server or use another database")]
    InUse { path: String },
}

/// Opens the database at `path`, creating the file if it does not exist. The runs that were active when an earlier
/// process ended are in the queue.
pub(in crate::langgraph) fn open(path: &Path) -> Result<Storage, OpenError> {
    let lock_file = match path.to_str() {
        // No other process can open a database in memory.
        Some(":memory:") => None,
        _ => Some(create_locked(&path.with_extension("lock"))?),
    };
    let failed = |cause| OpenError::Database { path: path.display().to_string(), cause };
    let documents = SqliteDocuments::open(path).map_err(failed)?;
    let queue = SqliteQueue::load(documents.clone(), lock_file).map_err(failed)?;
    let documents = Arc::new(documents);
    Ok(Storage {
        documents: documents.clone(),
        queue: Arc::new(queue),
        event_log: documents,
        shared_events: None,
    })
}

/// Creates and locks the file at `path`.
fn create_locked(path: &Path) -> Result<File, OpenError> {
    let shown = path.display().to_string();
    let failed = |cause| OpenError::LockFile { path: shown.clone(), cause };
    let file = File::create(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: shown }),
        Err(TryLockError::Error(cause)) => Err(failed(cause)),
    }
}
