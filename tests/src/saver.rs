//! Savers for conformance cases. Each case gets a new, empty saver.

use std::{
    io,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use graph_core::{MemorySaver, checkpoint::Checkpointer};
use graph_store::{OpenError, Postgres, PostgresSaver, Sqlite, SqliteSaver, sqlite::Synchronous};
use tempfile::TempDir;

use crate::postgres::{self, StartError};

/// The kind of saver to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SaverKind {
    /// A [`MemorySaver`].
    #[default]
    Memory,
    /// A [`SqliteSaver`] on a new file.
    Sqlite,
    /// A [`PostgresSaver`] in a new schema on the shared server.
    Postgres,
}

/// The error returned when a saver name is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown saver `{0}`; available: memory, sqlite, postgres")]
pub struct UnknownSaverError(String);

/// The error returned when a saver cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaverError {
    /// The directory of the SQLite file cannot be created.
    #[error("cannot create a directory for the SQLite file: {0}")]
    Directory(#[from] io::Error),
    /// The PostgreSQL server cannot be started.
    #[error(transparent)]
    Server(&'static StartError),
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl FromStr for SaverKind {
    type Err = UnknownSaverError;

    fn from_str(name: &str) -> Result<Self, UnknownSaverError> {
        match name {
            "memory" => Ok(Self::Memory),
            "sqlite" => Ok(Self::Sqlite),
            "postgres" => Ok(Self::Postgres),
            other => Err(UnknownSaverError(other.to_owned())),
        }
    }
}

impl SaverKind {
    /// Opens a new saver of this kind.
    pub(crate) async fn open(self) -> Result<FreshSaver, SaverError> {
        match self {
            Self::Memory => Ok(FreshSaver::new(MemorySaver::new(), SaverStorage::Memory)),
            Self::Sqlite => {
                let dir = tempfile::tempdir()?;
                // No case tests power failures, and waiting for the disk would take up most of the time.
                let settings = Sqlite::settings().synchronous(Synchronous::Normal);
                let saver = SqliteSaver::new(&settings.open(dir.path().join("case.db"))?);
                Ok(FreshSaver::new(saver, SaverStorage::Directory(dir)))
            }
            Self::Postgres => {
                let server = postgres::shared_or_error().map_err(SaverError::Server)?;
                let settings = Postgres::settings().schema(fresh_schema());
                let saver = PostgresSaver::new(&settings.connect(server.url()).await?);
                Ok(FreshSaver::new(saver, SaverStorage::Server))
            }
        }
    }
}

/// Returns the name of a new schema. Each case gets a schema instead of a database, because even an empty database
/// takes seven megabytes and creating one needs another connection.
fn fresh_schema() -> String {
    static N_SCHEMAS: AtomicU64 = AtomicU64::new(0);
    format!("case_{}", N_SCHEMAS.fetch_add(1, Ordering::Relaxed))
}

/// An empty saver. Dropping it deletes its storage.
#[derive(Debug)]
pub(crate) struct FreshSaver {
    pub(crate) checkpointer: Arc<dyn Checkpointer>,
    /// Declared after the saver, because the saver may still write to the storage.
    _storage: SaverStorage,
}

impl FreshSaver {
    fn new(checkpointer: impl Checkpointer + 'static, storage: SaverStorage) -> Self {
        Self { checkpointer: Arc::new(checkpointer), _storage: storage }
    }
}

/// The storage of a saver. Dropping it deletes the data.
#[derive(Debug)]
enum SaverStorage {
    Memory,
    /// The data is on the server, which is removed when this process ends.
    Server,
    Directory(#[expect(dead_code, reason = "held for its Drop")] TempDir),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed() {
        assert_eq!("memory".parse(), Ok(SaverKind::default()));
        assert_eq!("sqlite".parse(), Ok(SaverKind::Sqlite));
        assert_eq!("postgres".parse(), Ok(SaverKind::Postgres));
        let error = "redis".parse::<SaverKind>().unwrap_err();
        assert_eq!(error.to_string(), "unknown saver `redis`; available: memory, sqlite, postgres");
    }
}
