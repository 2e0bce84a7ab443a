//! The snapshot of filed figures that is part of the program.

use consulting_graph::data::{
    Company, DataOrigin, DataSource, Item, Source, Ticker, edgar, snapshot,
};

use crate::{edgar::real_filings, sample::date};

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
    let Some(folder) = real_filings("snapshot::the_snapshot_equals_the_companyfacts_files") else {
        return;
    };
    let file = |text: &str| {
        let json = std::fs::read_to_string(folder.join(format!("{text}.json"))).unwrap();
        (ticker(text), json)
    };
    assert_eq!(snapshot::render(&TICKERS.map(file)).unwrap(), FILE);
    for text in TICKERS {
        let included = company(text);
        let full = edgar::read(&folder, &ticker(text), included.as_of).unwrap();
        assert_eq!(Company { source: Source::Snapshot, ..full }, included, "{text}");
    }
}
