//! Errors of the SEC data source.

use std::{io, path::PathBuf};

use chrono::NaiveDate;

use super::super::ticker::Ticker;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EdgarError {
    #[error(
        "no data for {ticker} in {}: expected {ticker}.json, or company_tickers.json and the company's CIK file; found {}",
        folder.display(),
        if known.is_empty() { "no companies".to_owned() } else { known.join(", ") }
    )]
    NoFactsFile { ticker: Ticker, folder: PathBuf, known: Vec<String> },
    #[error("cannot access {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("the data of {ticker} is not companyfacts JSON ({source}); download the file again")]
    Json { ticker: Ticker, source: serde_json::Error },
    #[error(
        "the list of filings of {ticker} is not submissions JSON ({source}); download the file again, or delete it"
    )]
    SubmissionsJson { ticker: Ticker, source: serde_json::Error },
    #[error(
        "{0:?} is not a valid contact for the SEC: it has no email address; use a form such as \"Example Research \
         jane@example.com\""
    )]
    InvalidContact(String),
    #[error(
        "the SEC lists no company with the ticker {ticker}; {}if it was listed recently, delete {} to download the list again",
        if similar.is_empty() { String::new() } else { format!("did you mean {}? ", similar.join(", ")) },
        list.display()
    )]
    NotListed { ticker: Ticker, similar: Vec<String>, list: PathBuf },
    #[error("cannot download {address}: {problem}")]
    Fetch { address: String, problem: String },
    #[error(
        "no full fiscal year of {ticker} was filed in us-gaap and USD by {as_of}; choose a later date"
    )]
    NothingFiled { ticker: Ticker, as_of: NaiveDate },
}
