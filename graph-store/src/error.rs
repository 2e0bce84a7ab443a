//! Errors of opening a database.

use std::path::PathBuf;

/// A database that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file or the server cannot be reached or used.
    #[error("cannot open the database {database}: {problem}")]
    Unreachable {
        /// The file or the server, without its password.
        database: String,
        /// The cause and, where known, the fix.
        problem: String,
    },
    /// The file or schema contains tables of another program.
    #[error("{database} contains tables of another program; choose another file or schema")]
    Foreign {
        /// The file or the schema.
        database: String,
    },
    /// The tables were created by a newer version of this library.
    #[error(
        "the tables of {database} have version {found}, but this version of graph-store supports at most version \
         {supported}; use a newer version"
    )]
    TooNew {
        /// The file or the schema.
        database: String,
        /// The version of its tables.
        found: i64,
        /// The newest version that this library supports.
        supported: i64,
    },
    /// The owner file, which shows other processes that this one is alive, cannot be created or locked.
    #[error("cannot create and lock the owner file {path}: {source}")]
    OwnerFile {
        /// The owner file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
}
