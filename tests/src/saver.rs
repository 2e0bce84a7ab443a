//! Savers for cases; each case gets a new and empty one.

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

/// Kind of saver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SaverKind {
    /// [`MemorySaver`].
    #[default]
    Memory,
    /// [`SqliteSaver`] on a new file.
    Sqlite,
    /// [`PostgresSaver`] in a new schema of the shared server.
    Postgres,
}

/// Unknown name of a saver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown saver `{0}`; available: memory, sqlite, postgres")]
pub struct UnknownSaverError(String);

/// A saver that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaverError {
    /// The directory of the SQLite file cannot be created.
    #[error("cannot create a directory for the SQLite file: {0}")]
    Directory(#[from] io::Error),
    /// The server cannot be started.
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
                // No case tests power failures, and waiting for the disk would take most of the time.
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

/// A schema, because even an empty database takes seven megabytes and creating it needs another connection.
fn fresh_schema() -> String {
    static N_SCHEMAS: AtomicU64 = AtomicU64::new(0);
    format!("case_{}", N_SCHEMAS.fetch_add(1, Ordering::Relaxed))
}

/// An empty saver. Dropping it deletes its storage.
#[derive(Debug)]
pub(crate) struct FreshSaver {
    pub(crate) checkpointer: Arc<dyn Checkpointer>,
    /// Declared after the saver, which may still write to it.
    _storage: SaverStorage,
}

impl FreshSaver {
    fn new(checkpointer: impl Checkpointer + 'static, storage: SaverStorage) -> Self {
        Self { checkpointer: Arc::new(checkpointer), _storage: storage }
    }
}

/// Storage of a saver, deleted on drop.
#[derive(Debug)]
enum SaverStorage {
    Memory,
    /// Removed when this process ends.
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
