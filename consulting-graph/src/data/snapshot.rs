//! Filed figures of a few companies that are part of the program.
//!
//! The snapshot contains the annual and quarterly values of recent years from the SEC's companyfacts files. Each value
//! refers to the filing that reports it. To update the snapshot, download companyfacts files to a directory and run
//! `cargo run -p consulting-graph --example sec_snapshot -- DIR TICKER...` with the tickers of all companies to include
//! (see the example).

use std::{collections::BTreeMap, sync::LazyLock};

use chrono::{Months, NaiveDate};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    company::{Company, Source},
    edgar::{self, EdgarError},
    ticker::Ticker,
};

/// Name of the source of the figures.
pub(crate) const SOURCE: &str = "SEC EDGAR company facts";

/// Values of periods that ended longer before the newest period are left out of the snapshot.
const MAX_AGE: Months = Months::new(5 * 12 + 3);

static SNAPSHOT: LazyLock<Snapshot> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../data/sec-facts.json"))
        .expect("the included snapshot is valid, which a test checks")
});

#[derive(Debug, Serialize, Deserialize)]
struct Snapshot {
    source: String,
    companies: BTreeMap<String, FiledFacts>,
}

/// The values that one company filed.
#[derive(Debug, Serialize, Deserialize)]
struct FiledFacts {
    cik: u64,
    name: String,
    filings: Vec<Filing>,
    /// The values by XBRL tag and unit.
    facts: BTreeMap<String, BTreeMap<String, Vec<FiledValue>>>,
}

/// Accession number, form and filing date.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Filing(String, String, NaiveDate);

/// First day of the period (`null` for a balance sheet value), last day, value, and index of the filing.
#[derive(Debug, Serialize, Deserialize)]
struct FiledValue(Option<NaiveDate>, NaiveDate, i64, usize);

/// Returns the tickers of the companies in the snapshot.
pub fn tickers() -> impl Iterator<Item = &'static str> {
    SNAPSHOT.companies.keys().map(String::as_str)
}

/// Returns the date of the newest filing of a company, or `None` if the company is not in the snapshot.
pub(crate) fn newest_filing(ticker: &str) -> Option<NaiveDate> {
    SNAPSHOT.companies.get(ticker)?.filings.iter().map(|it| it.2).max()
}

/// Returns a company with the values that it had filed by `as_of`, or `None` if it is not in the snapshot.
///
/// The cut-off date of the company is the date of its newest filing in the snapshot, or `as_of` if that is earlier.
///
/// ```
/// use consulting_graph::data::{Item, Ticker, snapshot};
/// use chrono::NaiveDate;
///
/// let today = NaiveDate::from_ymd_opt(2026, 11, 15).unwrap();
/// let nvidia = snapshot::company(&Ticker::parse("NVDA")?, today).unwrap()?;
/// assert_eq!(nvidia.annuals.last().unwrap().get(Item::Revenue), Some(215_938_000_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn company(ticker: &Ticker, as_of: NaiveDate) -> Option<Result<Company, EdgarError>> {
    let filed = SNAPSHOT.companies.get(ticker.as_str())?;
    let as_of = newest_filing(ticker.as_str()).map_or(as_of, |it| it.min(as_of));
    let company = edgar::company(ticker, &filed.companyfacts().to_string(), as_of);
    Some(company.map(|it| Company { source: Source::Snapshot, ..it }))
}

/// Renders the snapshot file from companyfacts files.
pub fn render(companyfacts: &[(Ticker, String)]) -> Result<String, serde_json::Error> {
    let filed = |(ticker, json): &(Ticker, String)| {
        Ok((ticker.to_string(), FiledFacts::from_companyfacts(&serde_json::from_str(json)?)))
    };
    let companies: Result<_, serde_json::Error> = companyfacts.iter().map(filed).collect();
    let json =
        serde_json::to_string(&Snapshot { source: SOURCE.to_owned(), companies: companies? })?;
    // One line per tag keeps differences between versions readable.
    Ok(json.replace("]]},", "]]},\n").replace("\"facts\":{", "\"facts\":{\n") + "\n")
}

impl FiledFacts {
    /// Selects the recent dollar values and numbers of shares from a companyfacts file.
    fn from_companyfacts(file: &Value) -> Self {
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let date = |it: &Value| it.as_str().and_then(|it| it.parse::<NaiveDate>().ok());
        let tags = file["facts"]["us-gaap"].as_object();
        let series = tags.into_iter().flatten().flat_map(|(tag, it)| {
            let units = it["units"].as_object().into_iter().flatten();
            let units = units.filter(|(unit, _)| ["USD", "shares"].contains(&unit.as_str()));
            units.map(move |(unit, values)| (tag, unit, values.as_array().into_iter().flatten()))
        });
        let series: Vec<_> = series.collect();
        let values = || {
            series.iter().flat_map(|(tag, unit, all)| all.clone().map(move |it| (*tag, *unit, it)))
        };
        let oldest = values().filter_map(|it| date(&it.2["end"])).max();
        let oldest = oldest.and_then(|it| it.checked_sub_months(MAX_AGE));
        let recent = || values().filter(|it| date(&it.2["end"]) >= oldest);
        let filing =
            |it: &Value| Some(Filing(text(&it["accn"]), text(&it["form"]), date(&it["filed"])?));
        let mut filings: Vec<Filing> = recent().filter_map(|it| filing(it.2)).collect();
        filings.sort();
        filings.dedup();
        let mut facts: BTreeMap<String, BTreeMap<String, Vec<FiledValue>>> = BTreeMap::new();
        for (tag, unit, it) in recent() {
            let index = filing(it).and_then(|it| filings.binary_search(&it).ok());
            let (Some(end), Some(value), Some(index)) =
                (date(&it["end"]), it["val"].as_i64(), index)
            else {
                continue;
            };
            let values = facts.entry(tag.clone()).or_default().entry(unit.clone()).or_default();
            values.push(FiledValue(date(&it["start"]), end, value, index));
        }
        let cik = file["cik"].as_u64().unwrap_or_default();
        Self { cik, name: text(&file["entityName"]), filings, facts }
    }

    /// Returns the values in the format of a companyfacts file.
    fn companyfacts(&self) -> Value {
        let entry = |FiledValue(start, end, value, filing): &FiledValue| {
            let Filing(accession, form, filed) = self.filings.get(*filing)?;
            let mut entry = json!({
                "end": end, "val": value, "accn": accession, "form": form, "filed": filed,
            });
            if let Some(start) = start {
                entry["start"] = json!(start);
            }
            Some(entry)
        };
        let tag = |(tag, units): (&String, &BTreeMap<String, Vec<FiledValue>>)| {
            let units: Map<String, Value> = units
                .iter()
                .map(|(unit, all)| (unit.clone(), all.iter().filter_map(entry).collect()))
                .collect();
            (tag.clone(), json!({ "units": units }))
        };
        let tags: Map<String, Value> = self.facts.iter().map(tag).collect();
        json!({ "cik": self.cik, "entityName": self.name, "facts": { "us-gaap": tags } })
    }
}
