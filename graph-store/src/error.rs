//! Storage that cannot be opened, or fails.

use std::path::PathBuf;

/// A database that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file or the server cannot be reached.
    #[error("cannot open the database {database}: {problem}")]
    Unreachable {
        /// The file or the server, without its password.
        database: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// It is somebody else's.
    #[error(
        "{database} is a database of another program: it has tables that are not ours; choose another file or schema"
    )]
    Foreign {
        /// The file or the schema.
        database: String,
    },
    /// A later version of this library made it.
    #[error(
        "the tables of {database} have version {found}, and this version of graph-store knows them up to {known}; \
         use a newer one"
    )]
    TooNew {
        /// The file or the schema.
        database: String,
        /// The version of its tables.
        found: i64,
        /// The newest version known here.
        known: i64,
    },
    /// The file cannot be locked.
    #[error(
        "cannot make the file {path}, which tells other processes that this one lives: {source}"
    )]
    Owner {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: std::io::Error,
    },
}
