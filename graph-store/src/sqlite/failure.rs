//! What can go wrong in a piece of work on the database.

use std::{path::Path, sync::Arc};

use graph_core::checkpoint::CheckpointError;
use rusqlite::ErrorCode;

use crate::codec::CodecError;

/// Why a piece of work came to nothing: the database failed, or the work itself refuses with an `R`.
#[derive(Debug)]
pub(crate) enum Failure<R> {
    /// Shared: a commit that fails fails for all whose work it held.
    Database(Arc<rusqlite::Error>),
    Refused(R),
}

impl<R> From<rusqlite::Error> for Failure<R> {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(Arc::new(error))
    }
}

impl From<CheckpointError> for Failure<CheckpointError> {
    fn from(error: CheckpointError) -> Self {
        Self::Refused(error)
    }
}

impl From<CodecError> for Failure<CheckpointError> {
    fn from(error: CodecError) -> Self {
        Self::Refused(CheckpointError::Storage(Arc::new(error)))
    }
}

impl Failure<CheckpointError> {
    pub(crate) fn into_checkpoint_error(self, path: &Path) -> CheckpointError {
        match self {
            Self::Refused(error) => error,
            Self::Database(source) => {
                CheckpointError::Storage(Arc::new(DatabaseError::new(path, source)))
            }
        }
    }
}

/// SQLite could not do its work. What was committed before is still there.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{path}: {source}{hint}")]
pub struct DatabaseError {
    path: String,
    source: Arc<rusqlite::Error>,
    hint: &'static str,
}

impl DatabaseError {
    pub(crate) fn new(path: &Path, source: Arc<rusqlite::Error>) -> Self {
        Self { path: path.display().to_string(), hint: hint(&source), source }
    }
}

/// What to do about it.
pub(super) fn hint(error: &rusqlite::Error) -> &'static str {
    const DAMAGED: &str = "; the file is damaged: restore it from a backup";
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            "; the disk is full: make room and run again, nothing committed is lost"
        }
        Some(ErrorCode::SystemIoFailure) => {
            "; the disk failed: see the system's log and run again, nothing committed is lost"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "; another process holds the database: wait for it, or raise `busy_timeout`"
        }
        Some(ErrorCode::NotADatabase) => "; the file is no SQLite database: choose another one",
        Some(ErrorCode::ReadOnly) => "; the file or its folder is read-only",
        Some(ErrorCode::CannotOpen) => "; does its folder exist, and may this process write there?",
        Some(ErrorCode::DatabaseCorrupt) => DAMAGED,
        Some(_) => "",
        // What lies in a column is of another kind than we ever put there, or a statement does not fit the tables.
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
