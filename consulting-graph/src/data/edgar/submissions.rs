//! Format of the SEC's submissions files, which list the filings of a company.

use chrono::NaiveDate;
use serde::Deserialize;

use super::super::current_report::CurrentReport;

/// A submissions file. Its other fields, and the older filings that it refers to, are ignored.
#[derive(Debug, Deserialize)]
struct Submissions {
    filings: Filings,
}

#[derive(Debug, Deserialize)]
struct Filings {
    recent: RecentFilings,
}

/// The recent filings. Each field has one entry per filing, and the entries at the same position belong together.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecentFilings {
    accession_number: Vec<String>,
    filing_date: Vec<NaiveDate>,
    /// Empty if the filing states no date.
    #[serde(default)]
    report_date: Vec<String>,
    form: Vec<String>,
    /// The numbers of the items, separated by commas. Empty for forms without items.
    #[serde(default)]
    items: Vec<String>,
}

/// Reads the filings of form 8-K that were filed no later than `as_of`, newest first.
pub(super) fn current_reports(
    json: &str,
    as_of: NaiveDate,
) -> Result<Vec<CurrentReport>, serde_json::Error> {
    let RecentFilings { accession_number, filing_date, report_date, form, items } =
        serde_json::from_str::<Submissions>(json)?.filings.recent;
    let text_at = |list: &[String], idx: usize| list.get(idx).cloned().unwrap_or_default();
    let report = |(idx, (accession, (filed, form))): (usize, (String, (NaiveDate, String)))| {
        let items = text_at(&items, idx);
        let items = items.split(',').map(str::trim).filter(|it| !it.is_empty());
        CurrentReport {
            filed,
            event_date: text_at(&report_date, idx).parse().ok(),
            form,
            items: items.map(str::to_owned).collect(),
            accession,
        }
    };
    let filings = accession_number.into_iter().zip(filing_date.into_iter().zip(form));
    let reports = filings.enumerate().map(report);
    let mut reports: Vec<CurrentReport> = reports
        .filter(|it| ["8-K", "8-K/A"].contains(&it.form.as_str()) && it.filed <= as_of)
        .collect();
    reports.sort_by(|a, b| (b.filed, &b.accession).cmp(&(a.filed, &a.accession)));
    Ok(reports)
}
