//! What a company filed with the SEC, as its *companyfacts* JSON has it.
//!
//! The file is a heap of values: the same quarter comes again in every later filing, restated values stand beside the
//! first ones, the tag for revenue changes over the years, cash flows are told from the year's beginning, and a fourth
//! quarter is never told at all. This module makes statements of it, as they were known on a day:
//!
//! * of several values for one period, the one filed last by that day counts, and says what it was before;
//! * quarters that are not told are computed from what is: Q2 = 6M - Q1, Q3 = 9M - 6M, Q4 = FY - 9M, within one tag;
//! * of several tags for one line, the tag with the newest period counts, and the others fill the periods it lacks.

mod calendar;
mod concept;
mod facts;
mod fetch;
mod listed;
mod series;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use chrono::NaiveDate;

pub use self::fetch::{Hosts, Online};
use self::{calendar::Calendar, facts::CompanyFacts, listed::Listed, series::Series};
use super::{Company, Fact, Item, Period, Source, Statement, Ticker, Unit};

/// How many years and quarters are kept.
const YEARS: usize = 4;
const QUARTERS: usize = 12;

/// The SEC's list of companies.
const LIST: &str = "company_tickers.json";

/// Why nothing could be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EdgarError {
    /// The folder has no file for the ticker.
    #[error(
        "{} has no facts of {ticker}: neither {ticker}.json nor, by company_tickers.json, a CIK file; it has {}",
        folder.display(),
        if known.is_empty() { "no companies".to_owned() } else { known.join(", ") }
    )]
    Unknown {
        /// The ticker asked for.
        ticker: Ticker,
        /// The folder looked into.
        folder: PathBuf,
        /// The tickers that have a file.
        known: Vec<String>,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what the SEC serves.
    #[error("the facts of {ticker} are not companyfacts JSON ({source}); fetch the file again")]
    Json {
        /// The ticker asked for.
        ticker: Ticker,
        /// Where it is wrong.
        source: serde_json::Error,
    },
    /// Nobody to write to is named.
    #[error(
        "the SEC wants to know who asks: {0:?} names no address for mail; say it like \"Example Research \
         jane@example.com\""
    )]
    Contact(String),
    /// The SEC does not know the ticker.
    #[error(
        "the SEC lists no company with the ticker {ticker}; {}if it is new, delete {} to have the list fetched again",
        if similar.is_empty() { String::new() } else { format!("did you mean {}? ", similar.join(", ")) },
        list.display()
    )]
    NotListed {
        /// The ticker asked for.
        ticker: Ticker,
        /// Companies that may be meant.
        similar: Vec<String>,
        /// Where the list is kept.
        list: PathBuf,
    },
    /// A file cannot be fetched.
    #[error("{address} cannot be fetched: {problem}")]
    Fetch {
        /// Where it is.
        address: String,
        /// Why not.
        problem: String,
    },
    /// Nothing is known on the day.
    #[error(
        "no full fiscal year of {ticker} was filed in us-gaap and USD by {as_of}; choose a later day"
    )]
    NothingFiled {
        /// The ticker asked for.
        ticker: Ticker,
        /// The day.
        as_of: NaiveDate,
    },
}

/// Reads a company from a folder with one file a company: `NVDA.json`, or `CIK0001045810.json` together with the SEC's
/// `company_tickers.json`.
pub fn read(folder: &Path, ticker: &Ticker, as_of: NaiveDate) -> Result<Company, EdgarError> {
    let path = find(folder, ticker)?;
    let json = read_text(&path)?;
    company(ticker, &json, as_of)
}

/// Makes a company of companyfacts JSON, as it was known on a day.
pub fn company(ticker: &Ticker, json: &str, as_of: NaiveDate) -> Result<Company, EdgarError> {
    let facts: CompanyFacts = serde_json::from_str(json)
        .map_err(|source| EdgarError::Json { ticker: ticker.clone(), source })?;
    let mut company = Company::new(ticker.clone(), facts.entity_name.trim(), Source::Edgar, as_of);
    let calendar = Calendar::of(facts.rows(as_of));
    if calendar.is_empty() {
        return Err(EdgarError::NothingFiled { ticker: ticker.clone(), as_of });
    }
    let statements = statements(&facts, &calendar, as_of, &mut company.warnings);
    let (annuals, quarters) = statements.into_iter().partition(|it| it.period.quarter.is_none());
    company.annuals = newest(annuals, YEARS);
    company.quarters = newest(quarters, QUARTERS);
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
        let mut all: Vec<Series> =
            tags.iter().filter_map(|tag| Series::of(tag, facts.values(tag, unit, as_of))).collect();
        if all.is_empty() {
            warnings.extend(tags.iter().filter_map(|tag| facts.other_units(tag, unit)));
            continue;
        }
        // The sort is stable: of tags that are equally new the one listed first counts.
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
    // A period of which nothing but a side line is told is no statement.
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

/// The first map's facts, and of the others those it lacks.
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
    let list = folder.join(LIST);
    if list.is_file() {
        let listed = Listed::parse(&read_text(&list)?)
            .map_err(|source| EdgarError::Json { ticker: ticker.clone(), source })?;
        let by_number = listed.cik(ticker).map(|it| folder.join(facts_file(it)));
        if let Some(path) = by_number.filter(|it| it.is_file()) {
            return Ok(path);
        }
    }
    Err(EdgarError::Unknown {
        ticker: ticker.clone(),
        folder: folder.to_owned(),
        known: known(folder),
    })
}

/// The name of the file with the facts of the company with this number.
fn facts_file(cik: u64) -> String {
    format!("CIK{cik:010}.json")
}

fn known(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let tickers = entries.filter_map(|it| {
        let path = it.ok()?.path();
        let json = path.extension().is_some_and(|it| it == "json");
        let stem = path.file_stem()?.to_str()?;
        (json && stem != "company_tickers" && Ticker::parse(stem).is_ok()).then(|| stem.to_owned())
    });
    let mut tickers: Vec<String> = tickers.collect();
    tickers.sort();
    tickers
}

fn read_text(path: &Path) -> Result<String, EdgarError> {
    std::fs::read_to_string(path).map_err(|source| EdgarError::Io { path: path.to_owned(), source })
}
