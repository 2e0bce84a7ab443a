//! Savers by a word of the command line.

use std::{path::PathBuf, sync::Arc};

use graph_core::Checkpointer;
use graph_store::{OpenError, PostgresSaver, SqliteSaver};

/// Where threads are kept: `sqlite:PATH`, or the address of a PostgreSQL database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// A file.
    Sqlite(PathBuf),
    /// A server's database.
    Postgres(String),
}

impl Home {
    /// Reads the word; `None` if it is neither.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word.strip_prefix("sqlite:") {
            Some(path) => Some(Self::Sqlite(PathBuf::from(path))),
            None if word.starts_with("postgresql://") => Some(Self::Postgres(word.to_owned())),
            None => None,
        }
    }

    /// The word that names it.
    #[must_use]
    pub fn word(&self) -> String {
        match self {
            Self::Sqlite(path) => format!("sqlite:{}", path.display()),
            Self::Postgres(url) => url.clone(),
        }
    }

    /// Opens it.
    pub async fn open(&self) -> Result<Arc<dyn Checkpointer>, OpenError> {
        match self {
            Self::Sqlite(path) => Ok(Arc::new(SqliteSaver::open(path)?)),
            Self::Postgres(url) => Ok(Arc::new(PostgresSaver::connect(url).await?)),
        }
    }
}
