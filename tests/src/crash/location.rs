//! Parses and formats command-line arguments that specify the location of a store.

use std::{path::PathBuf, sync::Arc};

use graph_core::Checkpointer;
use graph_store::{OpenError, PostgresSaver, SqliteSaver};

/// The location of a store, written as `sqlite:PATH` or as the URL of a PostgreSQL database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreLocation {
    Sqlite(PathBuf),
    Postgres(String),
}

impl StoreLocation {
    pub fn parse(arg: &str) -> Option<Self> {
        match arg.strip_prefix("sqlite:") {
            Some(path) => Some(Self::Sqlite(PathBuf::from(path))),
            None if arg.starts_with("postgresql://") => Some(Self::Postgres(arg.to_owned())),
            None => None,
        }
    }

    /// Formats the location as a command-line argument.
    pub fn to_arg(&self) -> String {
        match self {
            Self::Sqlite(path) => format!("sqlite:{}", path.display()),
            Self::Postgres(url) => url.clone(),
        }
    }

    pub async fn open(&self) -> Result<Arc<dyn Checkpointer>, OpenError> {
        match self {
            Self::Sqlite(path) => Ok(Arc::new(SqliteSaver::open(path)?)),
            Self::Postgres(url) => Ok(Arc::new(PostgresSaver::connect(url).await?)),
        }
    }
}
