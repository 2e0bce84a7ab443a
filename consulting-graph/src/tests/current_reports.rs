//! Filings of form 8-K, from handwritten files in the format of the SEC's submissions files.

use std::{fs, path::Path};

use serde_json::json;

use super::{
    edgar::fixture,
    run::{finish, resume_options, run_config},
    sample::date,
};
use crate::{
    data::{Company, DataOrigin, Ticker, edgar, render},
    finding::{Direction, Finding, Inference, Kind},
    run::Run,
};

/// Returns a list of filings: two reports of results, a change in the management, an impairment, an amendment, and
/// filings of other forms.
fn submissions() -> String {
    let filings = [
        ("0009999999-24-000060", "2024-12-30", "2024-12-27", "8-K", "2.06"),
        ("0009999999-24-000055", "2024-08-01", "2024-08-01", "8-K", "2.02,9.01"),
        ("0009999999-24-000051", "2024-06-10", "", "4", ""),
        ("0009999999-24-000050", "2024-06-03", "2023-12-30", "10-K/A", ""),
        ("0009999999-24-000030", "2024-05-20", "2024-05-17", "8-K/A", "5.02, 9.01"),
        ("0009999999-24-000019", "2024-05-02", "", "8-K", "2.02,9.01"),
        ("0009999999-20-000002", "2020-01-15", "2020-01-14", "8-K", "5.99"),
    ];
    json!({
        "cik": "9999999",
        "name": "EXAMPLE WIDGETS INC (HAND-MADE)",
        "filings": {
            "recent": {
                "accessionNumber": filings.map(|it| it.0),
                "filingDate": filings.map(|it| it.1),
                "reportDate": filings.map(|it| it.2),
                "form": filings.map(|it| it.3),
                "items": filings.map(|it| it.4),
                "size": filings.map(|_| 1000),
            },
            "files": [],
        },
    })
    .to_string()
}

fn copy_facts(folder: &Path) {
    fs::copy(fixture().join("EXMP.json"), folder.join("EXMP.json")).unwrap();
}

fn read(folder: &Path, as_of: chrono::NaiveDate) -> Result<Company, edgar::EdgarError> {
    edgar::read(folder, &Ticker::parse("EXMP").unwrap(), as_of)
}

#[test]
fn reports_are_read_from_the_file_next_to_the_facts() {
    let folder = tempfile::tempdir().unwrap();
    copy_facts(folder.path());
    assert!(read(folder.path(), date(2024, 12, 31)).unwrap().current_reports.is_empty());
    fs::write(folder.path().join("EXMP-submissions.json"), submissions()).unwrap();
    // The report of the impairment was filed after this date, and form 4 and the annual report are not reports on form
    // 8-K.
    let reports = read(folder.path(), date(2024, 12, 1)).unwrap().current_reports;
    let filed: Vec<String> = reports.iter().map(|it| it.filed.to_string()).collect();
    assert_eq!(filed, ["2024-08-01", "2024-05-20", "2024-05-02", "2020-01-15"]);
    assert_eq!(reports[1].items, ["5.02", "9.01"]);
    assert_eq!((reports[1].event_date, reports[2].event_date), (Some(date(2024, 5, 17)), None));
    // The list of known tickers does not mention the file.
    let unknown = edgar::read(folder.path(), &Ticker::parse("NONE").unwrap(), date(2024, 1, 1));
    assert!(unknown.unwrap_err().to_string().ends_with("found EXMP"));
    fs::write(folder.path().join("EXMP-submissions.json"), "{}").unwrap();
    let error = read(folder.path(), date(2024, 12, 1)).unwrap_err().to_string();
    assert!(error.starts_with("the list of filings of EXMP is not submissions JSON"), "{error}");
}

#[test]
fn the_document_on_trends_lists_items_with_their_titles() {
    let folder = tempfile::tempdir().unwrap();
    copy_facts(folder.path());
    fs::write(folder.path().join("EXMP-submissions.json"), submissions()).unwrap();
    let document = render::news(&read(folder.path(), date(2024, 12, 31)).unwrap());
    for line in [
        "- 2024-12-30: the 8-K on an event of 2024-12-27 reports Item 2.06, Material Impairments (0009999999-24-000060).",
        "- 2024-05-02: the 8-K reports Item 2.02, Results of Operations and Financial Condition (0009999999-24-000019).",
        "- 2020-01-15: the 8-K on an event of 2020-01-14 reports Item 5.99 (0009999999-20-000002).",
    ] {
        assert!(document.contains(line), "{line}\n{document}");
    }
    assert!(document.contains(
        "- 2024-05-20: the 8-K/A on an event of 2024-05-17 reports Item 5.02, Departure of"
    ));
    assert!(!document.contains("9.01"), "{document}");
}

#[tokio::test(flavor = "multi_thread")]
async fn findings_and_report_use_the_reports() {
    let folder = tempfile::tempdir().unwrap();
    copy_facts(folder.path());
    fs::write(folder.path().join("EXMP-submissions.json"), submissions()).unwrap();
    let mut config = run_config(1, 1);
    config.ticker = "EXMP".to_owned();
    config.data.origin = DataOrigin::Edgar { folder: folder.path().to_owned() };
    config.data.as_of = date(2024, 12, 31);
    let run = Run::create(folder.path().join("run"), config).unwrap();
    let (report, _) = finish(&run, resume_options()).await;
    let f2 = report.outcome.findings.iter().find(|it| it.inference == Inference::F2).unwrap();
    let events: Vec<&Finding> =
        f2.findings.iter().filter(|it| it.draft.kind == Kind::Event).collect();
    assert_eq!(events.len(), 3, "{:?}", f2.findings);
    assert!(events[0].draft.claim.contains("Material Impairments"), "{}", events[0].draft.claim);
    assert_eq!(events[0].draft.direction, Direction::Negative);
    assert_eq!(events[1].draft.direction, Direction::Mixed);
    let about_f2: Vec<&String> =
        report.outcome.warnings.iter().filter(|it| it.starts_with("F2")).collect();
    assert_eq!(about_f2, Vec::<&String>::new());
    let html = report.html();
    assert!(html.contains("Events reported to the SEC"));
    let address = "https://www.sec.gov/Archives/edgar/data/9999999/000999999924000060/";
    assert!(html.contains(address), "the finding leads to the filing");
}
