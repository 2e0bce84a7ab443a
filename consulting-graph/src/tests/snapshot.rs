//! The snapshot of filed figures that is part of the program.

use std::collections::{BTreeMap, BTreeSet};

use chrono::NaiveDate;
use serde_json::Value;

use super::{
    edgar::real_filings,
    run::{finish, resume_options, run_config},
    sample::date,
};
use crate::{
    data::{
        Company, DataOrigin, DataSource, Item, Source, Ticker, edgar, number,
        snapshot::{self, SecFiles},
    },
    report::Report,
    run::Run,
};

const FILE: &str = include_str!("../../data/sec-facts.json");
const TICKERS: [&str; 5] = ["AAPL", "GOOGL", "MRVL", "NVDA", "SNOW"];

fn ticker(text: &str) -> Ticker {
    Ticker::parse(text).unwrap()
}

fn company(text: &str) -> Company {
    snapshot::company(&ticker(text), date(2026, 11, 15)).unwrap().unwrap()
}

#[test]
fn the_snapshot_has_known_values_with_their_filings() {
    assert_eq!(snapshot::tickers().collect::<Vec<_>>(), TICKERS);
    assert!(FILE.len() < 100_000, "{} bytes", FILE.len());
    for (text, year, millions, accession, newest) in [
        ("AAPL", "FY2025", 416_161, "0000320193-25-000079", date(2026, 1, 30)),
        ("NVDA", "FY2026", 215_938, "0001045810-26-000021", date(2026, 5, 20)),
    ] {
        let company = company(text);
        assert_eq!((company.source, company.as_of), (Source::Snapshot, newest));
        let annual = company.annuals.iter().find(|it| it.period.to_string() == year).unwrap();
        let revenue = &annual.facts[&Item::Revenue];
        assert_eq!(revenue.value, millions * 1_000_000);
        assert!(revenue.origin.to_string().contains(accession), "{}", revenue.origin);
        assert!(company.source_notice().contains(&newest.to_string()));
    }
}

#[test]
fn included_companies_have_no_invented_news() {
    for text in TICKERS {
        let company = company(text);
        assert!(!company.has_news() && company.events.is_empty() && company.guidance.is_empty());
        assert!(company.annuals.len() >= 3 && company.quarters.len() >= 5, "{text}");
    }
}

#[test]
fn the_snapshot_respects_the_cut_off_date() {
    let early = snapshot::company(&ticker("NVDA"), date(2025, 3, 1)).unwrap().unwrap();
    assert_eq!(early.as_of, date(2025, 3, 1));
    assert!(early.source_notice().contains("filed up to 2025-03-01"), "{}", early.source_notice());
    assert_eq!(early.annuals.last().unwrap().period.to_string(), "FY2025");
    assert!(snapshot::company(&ticker("NVDA"), date(2015, 1, 1)).unwrap().is_err());
}

#[tokio::test]
async fn other_companies_are_synthetic() {
    let source = DataSource { origin: DataOrigin::Included, as_of: date(2026, 11, 15) };
    let read = async |text: &str| source.read(&ticker(text)).await.unwrap();
    assert_eq!(read("NVDA").await.source, Source::Snapshot);
    let other = read("ACME").await;
    assert_eq!(other.source, Source::Synthetic);
    assert!(other.name.starts_with("Synthetic "), "{}", other.name);
    assert_eq!(source.label("ACME"), "SYNTHETIC DATA");
    assert_eq!(source.label("NVDA"), "SEC EDGAR company facts to 2026-05-20");
}

#[test]
fn the_snapshot_equals_the_companyfacts_files() {
    let Some(folder) = real_filings() else { return };
    let file = |text: &str| {
        let companyfacts = std::fs::read_to_string(folder.join(format!("{text}.json"))).unwrap();
        SecFiles { ticker: ticker(text), companyfacts, submissions: None }
    };
    assert_eq!(snapshot::render(&TICKERS.map(file)).unwrap(), FILE);
    for text in TICKERS {
        let included = company(text);
        let full = edgar::read(&folder, &ticker(text), included.as_of).unwrap();
        assert_eq!((&included.name, included.cik), (&full.name, full.cik));
        // The files also have older periods.
        assert!(full.annuals.ends_with(&included.annuals), "{text}");
        assert!(full.quarters.ends_with(&included.quarters), "{text}");
    }
}

/// Returns the annual values of a line item from the snapshot file, by the end of the year. The last filed value
/// counts.
fn annual_values(ticker: &str, tags: &[&str]) -> BTreeMap<NaiveDate, i64> {
    let file: Value = serde_json::from_str(FILE).unwrap();
    let company = &file["companies"][ticker];
    let day = |it: &Value| it.as_str().unwrap().parse::<NaiveDate>().unwrap();
    let mut newest: BTreeMap<NaiveDate, (NaiveDate, i64)> = BTreeMap::new();
    let values = tags.iter().filter_map(|it| company["facts"][it]["USD"].as_array()).flatten();
    for it in values.filter(|it| !it[0].is_null()) {
        let (start, end) = (day(&it[0]), day(&it[1]));
        if !(350..=380).contains(&(end - start).num_days()) {
            continue;
        }
        let filing = &company["filings"][it[3].as_u64().unwrap() as usize];
        let value = (day(&filing[2]), it[2].as_i64().unwrap());
        newest.entry(end).and_modify(|known| *known = value.max(*known)).or_insert(value);
    }
    newest.into_iter().map(|(end, (_, value))| (end, value)).collect()
}

/// Returns the amounts and percentages that may describe the company on the first page.
fn expected_figures(ticker: &str) -> BTreeSet<String> {
    let revenue =
        annual_values(ticker, &["Revenues", "RevenueFromContractWithCustomerExcludingAssessedTax"]);
    let income = annual_values(ticker, &["OperatingIncomeLoss"]);
    let mut figures = BTreeSet::new();
    for (end, value) in &revenue {
        figures.insert(number::dollars(*value));
        figures.extend(income.get(end).map(|it| number::percent(*it as f64 / *value as f64)));
    }
    let last_two: Vec<i64> = revenue.values().rev().take(2).copied().collect();
    figures.insert(number::percent((last_two[0] as f64 / last_two[1] as f64 - 1.0).abs()));
    figures
}

/// Returns the words of an HTML text that are amounts or percentages.
fn figures_in(html: &str) -> Vec<String> {
    let mut text = String::new();
    let mut in_tag = false;
    for it in html.chars() {
        match it {
            '<' => in_tag = true,
            '>' => {
                in_tag = false;
                text.push(' ');
            }
            it if !in_tag => text.push(it),
            _ => {}
        }
    }
    let words = text.split(|it: char| it.is_whitespace() || "()“”;:".contains(it));
    let words = words.map(|it| it.trim_end_matches(['.', ',']));
    words.filter(|it| it.contains('$') || it.ends_with('%')).map(str::to_owned).collect()
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.find(from).unwrap_or_else(|| panic!("{from} is missing"));
    let end = text[start..].find(to).unwrap_or_else(|| panic!("{to} is missing"));
    &text[start..start + end]
}

#[track_caller]
fn check_first_page(ticker: &str, report: &Report) {
    let html = report.html();
    let expected = expected_figures(ticker);
    let answer = between(&html, "<h2 id=\"answer\">", "<h2 id=\"confidence\">");
    let chart = between(&html, "<h2 id=\"the-company-in-figures\">", "<h2 id=\"evidence\">");
    let own: Vec<String> = figures_in(answer).into_iter().chain(figures_in(chart)).collect();
    assert!(own.len() >= 8, "{ticker}: {own:?}");
    for figure in &own {
        assert!(expected.contains(figure), "{ticker}: {figure} is not in {expected:?}");
    }
    // Sentences on the cards that cite a finding describe the company. All other numbers are plans of the move.
    let documents = report.outcome.documents.join("\n");
    let cards = between(&html, "<h2 id=\"recommended\">", "<h2 id=\"the-company-in-figures\">");
    let flagged: Vec<&str> = report.flags.iter().map(|it| it.text.as_str()).collect();
    for text in cards.split("<dd>").filter(|it| it.contains("href=\"#F")) {
        for figure in figures_in(text.split("</dd>").next().unwrap()) {
            let known = documents.contains(&figure) || flagged.contains(&figure.as_str());
            assert!(known, "{ticker}: {figure} in {text}");
        }
    }
    // Decision makers are named instead of their ids.
    let mut words = html.split(|it: char| !it.is_alphanumeric());
    assert!(words.all(|it| !["D1", "D2", "D3"].contains(&it)), "{ticker}");
    // Company facts have no segments, so no chart may claim to show them.
    let titles: Vec<&str> = report.figures.iter().map(|it| it.title.as_str()).collect();
    assert!(titles.iter().all(|it| !it.contains("segment")), "{ticker}: {titles:?}");
    assert!(titles.iter().any(|it| it.starts_with("Margins")), "{ticker}: {titles:?}");
    for text in [&html, &report.markdown()] {
        assert!(text.contains("contain no figures by segment"), "{ticker}");
    }
    let notice = report.outcome.company.source_notice();
    for text in [&html, &report.markdown(), &report.json()] {
        assert!(text.contains(&notice), "{ticker}: {notice}");
    }
    assert!(html.contains("https://www.sec.gov/Archives/edgar/data/"), "{ticker}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_figure_of_the_first_page_is_in_the_snapshot() {
    for ticker in TICKERS {
        let dir = tempfile::tempdir().unwrap();
        let mut config = run_config(5, 1);
        ticker.clone_into(&mut config.ticker);
        config.data = DataSource { origin: DataOrigin::Included, as_of: date(2026, 11, 15) };
        let run = Run::create(dir.path().join("run"), config).unwrap();
        let (report, _) = finish(&run, resume_options()).await;
        check_first_page(ticker, &report);
        // The newest filing of Apple is 289 days older than the cut-off date of the run, that of Nvidia 179 days.
        let outdated = "The newest filing is from 2026-01-30";
        match ticker {
            "AAPL" => assert!(report.markdown().contains(outdated)),
            "NVDA" => assert_eq!(report.outdated_notice(), None),
            _ => {}
        }
    }
}
