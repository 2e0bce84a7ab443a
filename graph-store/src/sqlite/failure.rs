//! Errors of operations on the database.

use std::{path::Path, sync::Arc};

use graph_core::checkpoint::CheckpointError;
use rusqlite::ErrorCode;

/// The database's error is shared, because a failed commit fails every job in that commit.
pub(crate) type Failure<R> = crate::failure::Failure<Arc<rusqlite::Error>, R>;

impl<R> From<rusqlite::Error> for Failure<R> {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(Arc::new(error))
    }
}

impl Failure<CheckpointError> {
    pub(crate) fn into_checkpoint_error(self, path: &Path) -> CheckpointError {
        match self {
            Self::Rejected(error) => error,
            Self::Database(source) => {
                CheckpointError::Storage(Arc::new(DatabaseError::new(path, source)))
            }
        }
    }
}

/// An error reported by SQLite. Previously committed data is not lost.
#[derive(Clone, thiserror::Error)]
#[error("{path}: {source}{hint}")]
pub struct DatabaseError {
    path: String,
    source: Arc<rusqlite::Error>,
    hint: &'static str,
}

graph_core::readable_debug!(DatabaseError);

impl DatabaseError {
    pub(crate) fn new(path: &Path, source: Arc<rusqlite::Error>) -> Self {
        Self { path: path.display().to_string(), hint: hint(&source), source }
    }
}

/// Returns advice on how to fix the error, or an empty string.
pub(super) fn hint(error: &rusqlite::Error) -> &'static str {
    const DAMAGED: &str = "; the file is damaged: restore it from a backup";
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            "; the disk is full: free some space and retry; committed data is not lost"
        }
        Some(ErrorCode::SystemIoFailure) => {
            "; the disk failed: check the system log and retry; committed data is not lost"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "; another process has locked the database: wait for it, or raise `busy_timeout`"
        }
        Some(ErrorCode::NotADatabase) => "; the file is not a SQLite database: choose another file",
        Some(ErrorCode::ReadOnly) => "; the file or its directory is read-only: make both writable",
        Some(ErrorCode::CannotOpen) => "; check that its directory exists and is writable",
        Some(ErrorCode::DatabaseCorrupt) => DAMAGED,
        Some(_) => "",
        // These errors mean that a stored value has a type that we never write, or that the tables are not those we
        // created.
        None => match error {
            rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::SqlInputError { .. } => DAMAGED,
            _ => "",
        },
    }
}
