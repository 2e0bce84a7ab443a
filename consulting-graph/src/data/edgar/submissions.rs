//! Format of the SEC's submissions files, which list the filings of a company.

use chrono::NaiveDate;
use serde::{Deserialize, de::Error as _};

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
    filing_date: Vec<String>,
    /// Empty if the filing states no date.
    #[serde(default)]
    report_date: Vec<String>,
    form: Vec<String>,
    /// The numbers of the items, separated by commas. Empty for forms without items.
    #[serde(default)]
    items: Vec<String>,
}

impl RecentFilings {
    /// Fails if the lists have different lengths, because their entries could then not be assigned to filings.
    fn check_lengths(&self) -> Result<(), serde_json::Error> {
        let n = self.form.len();
        let required = [self.accession_number.len(), self.filing_date.len()];
        let optional = [self.report_date.len(), self.items.len()];
        if required.iter().all(|it| *it == n) && optional.iter().all(|it| [0, n].contains(it)) {
            return Ok(());
        }
        Err(serde_json::Error::custom("the lists in `filings.recent` have different lengths"))
    }
}

/// Reads the filings of form 8-K that were filed no later than `as_of`, newest first.
pub(super) fn current_reports(
    json: &str,
    as_of: NaiveDate,
) -> Result<Vec<CurrentReport>, serde_json::Error> {
    let recent = serde_json::from_str::<Submissions>(json)?.filings.recent;
    recent.check_lengths()?;
    let text_at = |list: &[String], idx: usize| list.get(idx).cloned().unwrap_or_default();
    let mut reports = Vec::new();
    for (idx, form) in recent.form.iter().enumerate() {
        let accession = text_at(&recent.accession_number, idx);
        if !["8-K", "8-K/A"].contains(&form.as_str()) || accession.is_empty() {
            continue;
        }
        let filed: NaiveDate = text_at(&recent.filing_date, idx).parse().map_err(|error| {
            serde_json::Error::custom(format!("the filing date of {accession} is invalid: {error}"))
        })?;
        if filed > as_of {
            continue;
        }
        let items = text_at(&recent.items, idx);
        let items = items.split(',').map(str::trim).filter(|it| !it.is_empty());
        reports.push(CurrentReport {
            filed,
            event_date: text_at(&recent.report_date, idx).parse().ok(),
            form: form.clone(),
            items: items.map(str::to_owned).collect(),
            accession,
        });
    }
    reports.sort_by(|a, b| (b.filed, &b.accession).cmp(&(a.filed, &a.accession)));
    Ok(reports)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::current_reports;

    fn read(accessions: &[&str], dates: &[&str], forms: &[&str]) -> Result<usize, String> {
        let recent = json!({ "accessionNumber": accessions, "filingDate": dates, "form": forms });
        let json = json!({ "filings": { "recent": recent } }).to_string();
        let as_of = "2024-12-31".parse().unwrap();
        current_reports(&json, as_of).map(|it| it.len()).map_err(|it| it.to_string())
    }

    #[test]
    fn rows_of_other_forms_may_be_invalid() {
        assert_eq!(read(&["1", "2"], &["2024-01-02", ""], &["8-K", "4"]), Ok(1));
        assert_eq!(read(&["", "2"], &["2024-01-02", "2024-01-03"], &["8-K", "8-K"]), Ok(1));
        let invalid = read(&["1"], &["soon"], &["8-K"]).unwrap_err();
        assert!(invalid.contains("filing date of 1"), "{invalid}");
    }

    #[test]
    fn lists_of_different_lengths_are_rejected() {
        let error = read(&["1"], &["2024-01-02", "2024-01-03"], &["8-K", "8-K"]).unwrap_err();
        assert!(error.contains("different lengths"), "{error}");
    }
}
