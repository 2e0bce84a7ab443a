//! Errors that occur when a database is opened.

use std::path::PathBuf;

/// The error returned when a database cannot be opened.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file or the server is unreachable or unusable.
    #[error("cannot open the database {database}: {problem}")]
    Unreachable {
        /// The path of the file, or the address of the server without its password.
        database: String,
        /// The cause and, where known, the fix.
        problem: String,
    },
    /// The file or schema contains tables that belong to another program.
    #[error(
        "{database} contains tables that belong to another program; choose another file or schema"
    )]
    Foreign {
        /// The file or the schema.
        database: String,
    },
    /// A newer version of this program has created the tables.
    #[error(
        "the tables of {database} have version {found}, but this program supports at most version {supported}; use a \
         newer version of the program"
    )]
    TooNew {
        /// The file or the schema.
        database: String,
        /// Version of the tables.
        found: i64,
        /// The newest version that this program supports.
        supported: i64,
    },
    /// The owner file cannot be created or locked. Its lock shows other processes that this process is alive.
    #[error("cannot create and lock the owner file {path}: {source}")]
    OwnerFile {
        /// Path of the owner file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
}

graph_core::readable_debug!(OpenError);

/// State of the tables in a file or schema.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SchemaStatus {
    Current,
    Foreign,
    TooNew(i64),
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl SchemaStatus {
    /// Fails unless the tables are current. `supported` is the newest supported version.
    pub(crate) fn check(self, database: String, supported: i64) -> Result<(), OpenError> {
        match self {
            Self::Current => Ok(()),
            Self::Foreign => Err(OpenError::Foreign { database }),
            Self::TooNew(found) => Err(OpenError::TooNew { database, found, supported }),
        }
    }
}
