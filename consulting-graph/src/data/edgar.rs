//! Reads SEC filings from a company's *companyfacts* JSON, and the dates and items of its 8-K filings from its
//! *submissions* JSON, if that is present.
//!
//! The file lists every value that the company ever reported. Each quarter appears again in later filings, restated
//! values appear next to the original ones, the XBRL tag for revenue changes over the years, cash flows are cumulative
//! from the start of the year, and the fourth quarter is never reported separately. This module builds statements from
//! the values that had been filed by a cut-off date:
//!
//! * If a period has several values, the one filed last is used, and it records the value originally reported.
//! * Missing quarters are derived from other values with the same tag: Q2 = 6M - Q1, Q3 = 9M - 6M, Q4 = FY - 9M.
//! * If several tags denote the same line item, the tag with the latest period takes precedence. The other tags fill in
//!   the periods for which it has no value.

mod calendar;
mod concept;
mod error;
mod facts;
mod fetch;
mod file_names;
mod series;
mod submissions;
mod ticker_list;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use chrono::NaiveDate;

use self::{
    calendar::Calendar,
    facts::CompanyFacts,
    file_names::{SUBMISSIONS_ENDING, TICKER_LIST_FILE, facts_file, submissions_file},
    series::Series,
    ticker_list::TickerList,
};
pub use self::{
    error::EdgarError,
    fetch::{Downloader, Hosts},
};
use super::{
    company::{Company, Source},
    current_report::CurrentReport,
    item::{Item, Unit},
    origin::Fact,
    statement::{Period, Statement},
    ticker::Ticker,
};

/// Maximum number of fiscal years in a [`Company`]; the most recent ones are kept.
const MAX_YEARS: usize = 4;
/// Maximum number of fiscal quarters in a [`Company`]; the most recent ones are kept.
const MAX_QUARTERS: usize = 12;

/// Reads a company from a directory that has one companyfacts file per company. The file is named after the ticker
/// (`NVDA.json`) or after the CIK number (`CIK0001045810.json`). The latter requires the SEC's `company_tickers.json`
/// in the same directory.
///
/// The SEC's list of a company's filings may be next to the companyfacts file, as `NVDA-submissions.json` or
/// `CIK0001045810-submissions.json`. Filings of form 8-K are read from it.
pub fn read(folder: &Path, ticker: &Ticker, as_of: NaiveDate) -> Result<Company, EdgarError> {
    let path = find(folder, ticker)?;
    let mut company = company(ticker, &read_text(&path)?, as_of)?;
    company.current_reports = reports_beside(&path, ticker, as_of)?;
    Ok(company)
}

/// Like [`read`], but if the list of filings cannot be read, only adds a warning to the company, because users cannot
/// correct downloaded files.
pub(super) fn read_downloaded(
    folder: &Path,
    ticker: &Ticker,
    as_of: NaiveDate,
) -> Result<Company, EdgarError> {
    let path = find(folder, ticker)?;
    let mut company = company(ticker, &read_text(&path)?, as_of)?;
    match reports_beside(&path, ticker, as_of) {
        Ok(reports) => company.current_reports = reports,
        Err(error) => company.warnings.push(error.to_string()),
    }
    Ok(company)
}

/// Reads the filings of form 8-K from the list next to a companyfacts file, if there is one.
fn reports_beside(
    facts: &Path,
    ticker: &Ticker,
    as_of: NaiveDate,
) -> Result<Vec<CurrentReport>, EdgarError> {
    let name = facts.file_stem().unwrap_or_default().to_string_lossy();
    let submissions = facts.with_file_name(submissions_file(&name));
    if !submissions.is_file() {
        return Ok(Vec::new());
    }
    current_reports(ticker, &read_text(&submissions)?, as_of)
}

/// Reads the filings of form 8-K from submissions JSON, newest first, ignoring everything filed after `as_of`.
pub fn current_reports(
    ticker: &Ticker,
    json: &str,
    as_of: NaiveDate,
) -> Result<Vec<CurrentReport>, EdgarError> {
    submissions::current_reports(json, as_of)
        .map_err(|source| EdgarError::SubmissionsJson { ticker: ticker.clone(), source })
}

/// Builds a company from companyfacts JSON, ignoring everything filed after `as_of`.
pub fn company(ticker: &Ticker, json: &str, as_of: NaiveDate) -> Result<Company, EdgarError> {
    let facts: CompanyFacts = serde_json::from_str(json)
        .map_err(|source| EdgarError::Json { ticker: ticker.clone(), source })?;
    let mut company = Company::new(ticker.clone(), facts.entity_name.trim(), Source::Edgar, as_of);
    company.cik = facts.cik;
    let calendar = Calendar::from_values(facts.dollar_values(as_of));
    if calendar.is_empty() {
        return Err(EdgarError::NothingFiled { ticker: ticker.clone(), as_of });
    }
    let statements = statements(&facts, &calendar, as_of, &mut company.warnings);
    let (annuals, quarters) = statements.into_iter().partition(|it| it.period.quarter.is_none());
    company.annuals = newest(annuals, MAX_YEARS);
    company.quarters = newest(quarters, MAX_QUARTERS);
    if company.annuals.is_empty() {
        return Err(EdgarError::NothingFiled { ticker: ticker.clone(), as_of });
    }
    Ok(company)
}

fn newest(mut statements: Vec<Statement>, n: usize) -> Vec<Statement> {
    let surplus = statements.len().saturating_sub(n);
    statements.drain(..surplus);
    statements
}

fn statements(
    facts: &CompanyFacts,
    calendar: &Calendar,
    as_of: NaiveDate,
    warnings: &mut Vec<String>,
) -> Vec<Statement> {
    let mut statements: BTreeMap<Period, Statement> = BTreeMap::new();
    let mut balances: Vec<(Item, BTreeMap<NaiveDate, Fact>)> = Vec::new();
    for &item in Item::ALL {
        let unit = if item.unit() == Unit::AverageShares { "shares" } else { "USD" };
        let tags = concept::tags(item);
        let mut all: Vec<Series> = tags
            .iter()
            .filter_map(|tag| Series::from_values(tag, facts.values(tag, unit, as_of)))
            .collect();
        if all.is_empty() {
            warnings.extend(tags.iter().filter_map(|tag| facts.other_units(tag, unit)));
            continue;
        }
        // The sort is stable, so among tags with the same latest period, the one listed first takes precedence.
        all.sort_by_key(|it| std::cmp::Reverse(it.newest));
        if item.unit() == Unit::DollarsAtEnd {
            balances.push((item, merged(all.into_iter().map(|it| it.at_end))));
            continue;
        }
        let flows = merged(all.iter().map(|it| it.flows(calendar, item.unit())));
        for ((period, end), fact) in flows {
            let statement = statements.entry(period).or_insert_with(|| Statement {
                period,
                end: Some(end),
                facts: BTreeMap::new(),
            });
            statement.facts.insert(item, fact);
        }
    }
    // Drop periods for which neither revenue nor net income is known.
    statements.retain(|_, it| it.get(Item::Revenue).is_some() || it.get(Item::NetIncome).is_some());
    for statement in statements.values_mut() {
        for (item, at_end) in &balances {
            if let Some(fact) = statement.end.and_then(|it| at_end.get(&it)) {
                statement.facts.insert(*item, fact.clone());
            }
        }
    }
    let mut sorted: Vec<Statement> = statements.into_values().collect();
    sorted.sort_by_key(|it| (it.end, it.period));
    sorted
}

/// Merges maps. If several maps contain a key, the first one takes precedence.
fn merged<K: Ord>(maps: impl Iterator<Item = BTreeMap<K, Fact>>) -> BTreeMap<K, Fact> {
    let mut merged = BTreeMap::new();
    for map in maps {
        for (key, fact) in map {
            merged.entry(key).or_insert(fact);
        }
    }
    merged
}

fn find(folder: &Path, ticker: &Ticker) -> Result<PathBuf, EdgarError> {
    let by_ticker = folder.join(format!("{ticker}.json"));
    if by_ticker.is_file() {
        return Ok(by_ticker);
    }
    let list = folder.join(TICKER_LIST_FILE);
    if list.is_file() {
        let listed = TickerList::parse(&read_text(&list)?)
            .map_err(|source| EdgarError::Json { ticker: ticker.clone(), source })?;
        let by_number = listed.cik(ticker).map(|it| folder.join(facts_file(it)));
        if let Some(path) = by_number.filter(|it| it.is_file()) {
            return Ok(path);
        }
    }
    Err(EdgarError::NoFactsFile {
        ticker: ticker.clone(),
        folder: folder.to_owned(),
        known: available_tickers(folder),
    })
}

fn available_tickers(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let tickers = entries.filter_map(|it| {
        let path = it.ok()?.path();
        let json = path.extension().is_some_and(|it| it == "json");
        let stem = path.file_stem()?.to_str()?;
        let is_facts = stem != "company_tickers" && !stem.ends_with(SUBMISSIONS_ENDING);
        (json && is_facts && Ticker::parse(stem).is_ok()).then(|| stem.to_owned())
    });
    let mut tickers: Vec<String> = tickers.collect();
    tickers.sort();
    tickers
}

fn read_text(path: &Path) -> Result<String, EdgarError> {
    std::fs::read_to_string(path).map_err(|source| EdgarError::Io { path: path.to_owned(), source })
}
