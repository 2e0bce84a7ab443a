//! Names of the files in a directory with SEC data.

/// File name of the SEC's list of companies.
pub(super) const TICKER_LIST_FILE: &str = "company_tickers.json";

/// Ending of the names of submissions files. The SEC uses the same names for submissions and companyfacts files, so the
/// ending distinguishes them.
pub(super) const SUBMISSIONS_ENDING: &str = "-submissions";

/// Returns the name of a company's submissions file. `facts` is the name of its companyfacts file without extension.
pub(super) fn submissions_file(facts: &str) -> String {
    format!("{facts}{SUBMISSIONS_ENDING}.json")
}

/// Returns the name of the companyfacts file for a CIK number.
pub(super) fn facts_file(cik: u64) -> String {
    format!("CIK{cik:010}.json")
}
