//! The data source of a consulting run.

use std::path::{Path, PathBuf};

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use super::{company::Company, edgar, folder, snapshot, synthetic, ticker::Ticker};

/// The origin of the company data of a consulting run, and the cut-off date.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataSource {
    /// Origin of the data.
    #[serde(flatten)]
    pub origin: DataOrigin,
    /// Cut-off date: data published after this date is ignored.
    pub as_of: NaiveDate,
}

/// The origin of company data: this program, a directory or the SEC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "data")]
pub enum DataOrigin {
    /// The snapshot of SEC filings that is part of the program. Companies that are not in it are generated from the
    /// ticker.
    Included,
    /// Generated from the ticker.
    Synthetic,
    /// A directory with SEC companyfacts files.
    Edgar { folder: PathBuf },
    /// The SEC's servers. Each company is downloaded once and then read from the cache.
    EdgarOnline(edgar::Downloader),
    /// A directory with the user's own files.
    Dir { folder: PathBuf },
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    #[error(transparent)]
    Edgar(#[from] edgar::EdgarError),
    #[error(transparent)]
    Folder(#[from] folder::FolderError),
    #[error("reading the company data was aborted")]
    Aborted,
}

impl DataOrigin {
    /// Returns the directory that the data is read from, or `None` if the program itself provides the data.
    pub(crate) fn dir(&self) -> Option<&Path> {
        match self {
            Self::Included | Self::Synthetic => None,
            Self::Edgar { folder } | Self::Dir { folder } => Some(folder),
            Self::EdgarOnline(online) => Some(&online.cache),
        }
    }
}

impl DataSource {
    /// Describes the source and its date in a few words.
    pub fn label(&self, ticker: &str) -> String {
        let newest = snapshot::newest_filing(ticker);
        match (&self.origin, newest) {
            (DataOrigin::Synthetic, _) | (DataOrigin::Included, None) => {
                "SYNTHETIC DATA".to_owned()
            }
            (DataOrigin::Included, Some(newest)) => {
                format!("{} to {}", snapshot::SOURCE, newest.min(self.as_of))
            }
            (DataOrigin::Edgar { .. } | DataOrigin::EdgarOnline(_), _) => {
                format!("{} to {}", snapshot::SOURCE, self.as_of)
            }
            (DataOrigin::Dir { .. }, _) => format!("data as of {}", self.as_of),
        }
    }

    /// Reads the company, downloading its SEC data first if necessary.
    pub async fn read(&self, ticker: &Ticker) -> Result<Company, DataError> {
        let (origin, as_of, ticker) = (self.origin.clone(), self.as_of, ticker.clone());
        let warning = match &origin {
            DataOrigin::EdgarOnline(downloader) => downloader.fetch(&ticker).await?,
            _ => None,
        };
        let read = move || {
            let mut company = match origin {
                DataOrigin::Included => match snapshot::company(&ticker, as_of) {
                    Some(company) => company?,
                    None => synthetic::company(&ticker, as_of),
                },
                DataOrigin::Synthetic => synthetic::company(&ticker, as_of),
                DataOrigin::Edgar { folder } => edgar::read(&folder, &ticker, as_of)?,
                DataOrigin::EdgarOnline(edgar::Downloader { cache, .. }) => {
                    edgar::read_downloaded(&cache, &ticker, as_of)?
                }
                DataOrigin::Dir { folder } => folder::read(&folder, &ticker, as_of)?,
            };
            company.warnings.extend(warning);
            Ok(company)
        };
        // The files can have several megabytes, so they are read and parsed on a blocking thread.
        tokio::task::spawn_blocking(read).await.unwrap_or(Err(DataError::Aborted))
    }
}
