//! Names of the files in a directory with SEC data.

/// File name of the SEC's list of companies.
pub(super) const TICKER_LIST_FILE: &str = "company_tickers.json";

/// Returns the name of the companyfacts file for a CIK number.
pub(super) fn facts_file(cik: u64) -> String {
    format!("CIK{cik:010}.json")
}
