//! Where a run takes its company from.

use std::path::{Path, PathBuf};

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use super::{Company, Ticker, edgar, folder, synthetic};

/// Where a run takes its company from, and as of which day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataSource {
    /// Where from.
    #[serde(flatten)]
    pub from: From,
    /// Nothing that became known later is read.
    pub as_of: NaiveDate,
}

/// Where a company is read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "data")]
pub enum From {
    /// From nowhere: it is invented from the ticker.
    Synthetic,
    /// From a folder of what was filed with the SEC.
    Edgar {
        /// The folder.
        folder: PathBuf,
    },
    /// From the SEC's servers, which are asked once for each company.
    EdgarOnline(edgar::Online),
    /// From the user's own files.
    Dir {
        /// The folder.
        folder: PathBuf,
    },
}

/// Why a company cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// What was filed cannot be used.
    #[error(transparent)]
    Edgar(#[from] edgar::EdgarError),
    /// The user's files cannot be used.
    #[error(transparent)]
    Folder(#[from] folder::FolderError),
    /// Reading was cut off.
    #[error("reading the data was cut off")]
    Cut,
}

impl From {
    /// The folder it is read from, if there is one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Synthetic => None,
            Self::Edgar { folder } | Self::Dir { folder } => Some(folder),
            Self::EdgarOnline(online) => Some(&online.cache),
        }
    }
}

impl DataSource {
    /// Reads a company.
    pub async fn read(&self, ticker: &Ticker) -> Result<Company, DataError> {
        let (from, as_of, ticker) = (self.from.clone(), self.as_of, ticker.clone());
        if let From::EdgarOnline(online) = &from {
            online.fetch(&ticker).await?;
        }
        let read = move || {
            Ok(match from {
                From::Synthetic => synthetic::company(&ticker, as_of),
                From::Edgar { folder } | From::EdgarOnline(edgar::Online { cache: folder, .. }) => {
                    edgar::read(&folder, &ticker, as_of)?
                }
                From::Dir { folder } => folder::read(&folder, &ticker, as_of)?,
            })
        };
        // Files of some megabytes are read and parsed, which is nothing for a runtime's thread.
        tokio::task::spawn_blocking(read).await.unwrap_or(Err(DataError::Cut))
    }
}
