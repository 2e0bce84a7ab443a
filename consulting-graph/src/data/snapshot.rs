//! Filed figures of a few companies that are part of the program.
//!
//! The snapshot contains the annual and quarterly values of recent years from the SEC's companyfacts files. Each value
//! refers to the filing that reports it. If the SEC's lists of filings are next to these files, the snapshot also
//! contains the filings of form 8-K by date and item; the included snapshot was created without these lists. To update
//! the snapshot, download the files to a directory and run `cargo run -p consulting-graph --example sec_snapshot -- DIR
//! TICKER...` with the tickers of all companies to include (see the example).

use std::{collections::BTreeMap, sync::LazyLock};

use chrono::{Months, NaiveDate};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    company::{Company, Source},
    current_report::CurrentReport,
    edgar::{self, EdgarError},
    ticker::Ticker,
};

/// Name of the source of the figures.
pub(crate) const SOURCE: &str = "SEC EDGAR company facts";

/// Maximum time between the end of a period and the end of the newest period. Older periods are not in the snapshot.
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
    /// The filings of form 8-K, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    current_reports: Vec<CurrentReport>,
}

/// The SEC's files on one company.
#[derive(Debug)]
pub struct SecFiles {
    pub ticker: Ticker,
    /// Text of the companyfacts file.
    pub companyfacts: String,
    /// Text of the submissions file, which lists the company's filings.
    pub submissions: Option<String>,
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
    SNAPSHOT.companies.get(ticker)?.newest_filing()
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
    SNAPSHOT.companies.get(ticker.as_str()).map(|it| it.company(ticker, as_of))
}

/// Renders the snapshot file from the SEC's files.
pub fn render(files: &[SecFiles]) -> Result<String, EdgarError> {
    let mut companies = BTreeMap::new();
    for SecFiles { ticker, companyfacts, submissions } in files {
        let facts = serde_json::from_str(companyfacts)
            .map_err(|source| EdgarError::Json { ticker: ticker.clone(), source })?;
        let reports = submissions
            .as_ref()
            .map(|json| edgar::current_reports(ticker, json, NaiveDate::MAX))
            .transpose()?;
        let filed = FiledFacts::new(&facts, reports.unwrap_or_default());
        companies.insert(ticker.to_string(), filed);
    }
    let json = serde_json::to_string(&Snapshot { source: SOURCE.to_owned(), companies })
        .expect("a snapshot serializes to JSON");
    // One line per tag keeps differences between versions readable.
    Ok(json.replace("]]},", "]]},\n").replace("\"facts\":{", "\"facts\":{\n") + "\n")
}

impl FiledFacts {
    /// Returns the company with the values that it had filed by `as_of`.
    fn company(&self, ticker: &Ticker, as_of: NaiveDate) -> Result<Company, EdgarError> {
        let as_of = self.newest_filing().map_or(as_of, |it| it.min(as_of));
        let company = edgar::company(ticker, &self.companyfacts().to_string(), as_of)?;
        let reports = self.current_reports.iter().filter(|it| it.filed <= as_of);
        let current_reports = reports.cloned().collect();
        Ok(Company { source: Source::Snapshot, current_reports, ..company })
    }

    fn newest_filing(&self) -> Option<NaiveDate> {
        let reports = self.current_reports.iter().map(|it| it.filed);
        self.filings.iter().map(|it| it.2).chain(reports).max()
    }

    /// Selects the recent dollar values and numbers of shares from a companyfacts file, and the recent reports.
    fn new(file: &Value, mut current_reports: Vec<CurrentReport>) -> Self {
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
        current_reports.retain(|it| Some(it.filed) >= oldest);
        let cik = file["cik"].as_u64().unwrap_or_default();
        Self { cik, name: text(&file["entityName"]), filings, facts, current_reports }
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

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    fn date(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    /// Returns the handwritten facts of a company with a list of filings.
    fn files() -> SecFiles {
        let facts =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/consulting/edgar/EXMP.json");
        let recent = json!({
            "accessionNumber": ["3", "2", "1", "0"],
            "filingDate": ["2024-12-30", "2024-08-01", "2024-06-10", "2010-01-15"],
            "form": ["8-K", "8-K", "4", "8-K"],
            "items": ["2.06", "2.02,9.01", "", "8.01"],
        });
        SecFiles {
            ticker: Ticker::parse("EXMP").unwrap(),
            companyfacts: fs::read_to_string(facts).unwrap(),
            submissions: Some(json!({ "filings": { "recent": recent } }).to_string()),
        }
    }

    #[test]
    fn a_snapshot_contains_recent_current_reports() {
        let files = files();
        let snapshot: Snapshot =
            serde_json::from_str(&render(std::slice::from_ref(&files)).unwrap()).unwrap();
        let filed = |as_of: &str| -> Vec<String> {
            let company = snapshot.companies["EXMP"].company(&files.ticker, date(as_of)).unwrap();
            company.current_reports.iter().map(|it| it.filed.to_string()).collect()
        };
        assert_eq!(filed("2025-06-01"), ["2024-12-30", "2024-08-01"]);
        assert_eq!(filed("2024-12-01"), ["2024-08-01"]);
        let company = snapshot.companies["EXMP"].company(&files.ticker, date("2025-06-01"));
        assert_eq!(company.unwrap().as_of, date("2024-12-30"));
    }

    #[test]
    fn invalid_lists_of_filings_are_rejected() {
        let files = SecFiles { submissions: Some("{}".to_owned()), ..files() };
        let error = render(&[files]).unwrap_err().to_string();
        assert!(
            error.starts_with("the list of filings of EXMP is not submissions JSON"),
            "{error}"
        );
    }
}
