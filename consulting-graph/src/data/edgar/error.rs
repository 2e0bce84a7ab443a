//! Errors of the SEC data source.

use std::{io, path::PathBuf};

use chrono::NaiveDate;

use super::super::ticker::Ticker;

/// Error returned if the SEC data about a company cannot be downloaded or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EdgarError {
    /// The directory has no file for the ticker.
    #[error(
        "no data for {ticker} in {}: expected {ticker}.json, or company_tickers.json and the company's CIK file; found {}",
        folder.display(),
        if known.is_empty() { "no companies".to_owned() } else { known.join(", ") }
    )]
    NoFactsFile {
        /// The requested ticker.
        ticker: Ticker,
        /// The directory that was searched.
        folder: PathBuf,
        /// The tickers for which the directory has a file.
        known: Vec<String>,
    },
    /// A file or directory cannot be read or written.
    #[error("cannot access {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is not in the SEC's format.
    #[error("the data of {ticker} is not companyfacts JSON ({source}); download the file again")]
    Json {
        /// The requested ticker.
        ticker: Ticker,
        /// The parse error.
        source: serde_json::Error,
    },
    /// The contact has no email address.
    #[error(
        "{0:?} is not a valid contact for the SEC: it has no email address; use a form such as \"Example Research \
         jane@example.com\""
    )]
    InvalidContact(String),
    /// The ticker is not in the SEC's list.
    #[error(
        "the SEC lists no company with the ticker {ticker}; {}if it was listed recently, delete {} to download the list again",
        if similar.is_empty() { String::new() } else { format!("did you mean {}? ", similar.join(", ")) },
        list.display()
    )]
    NotListed {
        /// The requested ticker.
        ticker: Ticker,
        /// Companies with a similar ticker or name.
        similar: Vec<String>,
        /// The cached list.
        list: PathBuf,
    },
    /// A file cannot be downloaded.
    #[error("cannot download {address}: {problem}")]
    Fetch {
        /// The URL.
        address: String,
        /// The cause.
        problem: String,
    },
    /// No annual data was published before the cut-off date.
    #[error(
        "no full fiscal year of {ticker} was filed in us-gaap and USD by {as_of}; choose a later date"
    )]
    NothingFiled {
        /// The requested ticker.
        ticker: Ticker,
        /// The cut-off date.
        as_of: NaiveDate,
    },
}
