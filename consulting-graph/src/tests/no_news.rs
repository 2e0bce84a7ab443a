//! Companies whose source has only figures: F2 is drawn from their trends and filing events.

use std::path::PathBuf;

use super::{
    edgar::{fixture, real_filings},
    run::{finish, recording_lines, resume_options, run_config},
    sample::date,
};
use crate::{
    data::{DataOrigin, Ticker, edgar, render},
    finding::Inference,
    report::Report,
    run::Run,
};

#[test]
fn the_document_on_trends() {
    let ticker = Ticker::parse("EXMP").unwrap();
    let company = edgar::read(&fixture(), &ticker, date(2024, 12, 31)).unwrap();
    let document = render::news(&company);
    assert!(!document.contains("Not available"), "{document}");
    insta::assert_snapshot!("trends", document);
}

/// Runs the pipeline with the offline board on EDGAR data and returns the report and the recorded calls.
async fn run_on(folder: PathBuf, ticker: &str) -> (Report, String) {
    let dir = tempfile::tempdir().unwrap();
    let mut config = run_config(5, 1);
    config.config_toml =
        config.config_toml.replace("moves_per_analyst = 1", "moves_per_analyst = 3");
    config.ticker = ticker.to_owned();
    config.data.origin = DataOrigin::Edgar { folder };
    config.data.as_of = date(2026, 10, 1);
    let run = Run::create(dir.path().join("run"), config).unwrap();
    let (report, _) = finish(&run, resume_options()).await;
    let calls = recording_lines(run.dir()).join("\n");
    (report, calls)
}

#[track_caller]
fn check(ticker: &str, report: &Report, calls: &str) {
    let outcome = &report.outcome;
    assert!(!report.is_incomplete(), "{ticker}: {:?}", outcome.failures);
    for it in &outcome.findings {
        let n = it.findings.len();
        assert!((8..=14).contains(&n), "{ticker}: {n} findings in {}", it.inference);
        for finding in &it.findings {
            let claim = &finding.draft.claim;
            assert!(!claim.contains("not available"), "{ticker}: {claim}");
        }
    }
    // The findings are about the figures, and none breaks a rule.
    let about_findings =
        outcome.warnings.iter().filter(|it| it.starts_with("F1") || it.starts_with("F2"));
    assert_eq!(about_findings.collect::<Vec<_>>(), Vec::<&String>::new(), "{ticker}");
    assert_eq!(outcome.moves.len(), 15, "{ticker}");
    for it in &outcome.moves {
        let (title, draft) = (&it.draft.title, &it.draft);
        for filler in ["segment", "competitor", "at once"] {
            assert!(!title.to_lowercase().contains(filler), "{ticker}: {title}");
        }
        assert!(draft.reasoning.len() >= 3, "{ticker}: {title}");
        assert!(draft.reasoning.iter().all(|it| it.len() > 80), "{ticker}: {:?}", draft.reasoning);
        let cited = draft.cited_findings();
        assert!(cited.iter().any(|it| it.inference == Inference::F2), "{ticker}: {title}");
    }
    assert!(calls.contains("or, for the company's own figures, growth"), "{ticker}");
    let text = report.markdown();
    assert!(!text.contains("Not available from this source"), "{ticker}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_filings_without_news_argues_from_trends() {
    let (report, calls) = run_on(fixture(), "EXMP").await;
    check("EXMP", &report, &calls);
}

/// Runs the pipeline on real filings, which are not part of the repository.
#[tokio::test(flavor = "multi_thread")]
async fn runs_on_real_filings_argue_from_trends() {
    let Some(folder) = real_filings() else { return };
    for ticker in ["AAPL", "NVDA", "GOOGL", "MRVL", "SNOW"] {
        let (report, calls) = run_on(folder.clone(), ticker).await;
        check(ticker, &report, &calls);
    }
}
