//! Savers: what keeps the threads of a case, a new and empty one for each.

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

/// Which saver a case runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SaverKind {
    /// [`MemorySaver`].
    #[default]
    Memory,
    /// [`SqliteSaver`], on a file of its own.
    Sqlite,
    /// [`PostgresSaver`], in a schema of its own on the server that this process started.
    Postgres,
}

/// A word that names no saver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no saver `{0}`; savers are: memory, sqlite, postgres")]
pub struct UnknownSaver(String);

/// A saver that a case could not get.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaverError {
    /// There is no folder for its file.
    #[error("there is no folder for the saver's file: {0}")]
    Folder(#[from] io::Error),
    /// There is no server.
    #[error(transparent)]
    Server(&'static StartError),
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl FromStr for SaverKind {
    type Err = UnknownSaver;

    fn from_str(word: &str) -> Result<Self, UnknownSaver> {
        match word {
            "memory" => Ok(Self::Memory),
            "sqlite" => Ok(Self::Sqlite),
            "postgres" => Ok(Self::Postgres),
            other => Err(UnknownSaver(other.to_owned())),
        }
    }
}

impl SaverKind {
    /// Opens a new saver of this kind.
    pub(crate) async fn open(self) -> Result<FreshSaver, SaverError> {
        match self {
            Self::Memory => Ok(FreshSaver::new(MemorySaver::new(), Place::Memory)),
            Self::Sqlite => {
                let folder = tempfile::tempdir()?;
                // No case is about a loss of power, and waiting for the disk takes most of the time.
                let settings = Sqlite::settings().synchronous(Synchronous::Normal);
                let saver = SqliteSaver::new(&settings.open(folder.path().join("case.db"))?);
                Ok(FreshSaver::new(saver, Place::Folder(folder)))
            }
            Self::Postgres => {
                let server = postgres::started().map_err(SaverError::Server)?;
                let settings = Postgres::settings().schema(fresh_schema());
                let saver = PostgresSaver::new(&settings.connect(server.url()).await?);
                Ok(FreshSaver::new(saver, Place::Server))
            }
        }
    }
}

/// Not a database: that takes seven megabytes, however empty, and a connection to another one to make it.
fn fresh_schema() -> String {
    static N_SCHEMAS: AtomicU64 = AtomicU64::new(0);
    format!("case_{}", N_SCHEMAS.fetch_add(1, Ordering::Relaxed))
}

/// A saver that holds nothing yet; what it came to hold is removed with it.
#[derive(Debug)]
pub(crate) struct FreshSaver {
    pub(crate) checkpointer: Arc<dyn Checkpointer>,
    /// After the saver, which may still write to it.
    _place: Place,
}

impl FreshSaver {
    fn new(checkpointer: impl Checkpointer + 'static, place: Place) -> Self {
        Self { checkpointer: Arc::new(checkpointer), _place: place }
    }
}

/// Where a saver keeps what it is given; dropping it clears it away.
#[derive(Debug)]
enum Place {
    Memory,
    /// It ends with this process.
    Server,
    Folder(#[expect(dead_code, reason = "held for its Drop")] TempDir),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!("memory".parse(), Ok(SaverKind::default()));
        assert_eq!("sqlite".parse(), Ok(SaverKind::Sqlite));
        assert_eq!("postgres".parse(), Ok(SaverKind::Postgres));
        let error = "redis".parse::<SaverKind>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no saver `redis`; savers are: memory, sqlite, postgres"
        );
    }
}
