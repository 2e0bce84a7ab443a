//! Statements from SEC filings.

use std::path::{Path, PathBuf};

use chrono::NaiveDate;
use proptest::prelude::*;
use test_support::report_skipped;

use super::sample::date;
use crate::data::{Company, Item, Origin, Period, Statement, Ticker, edgar, ratio, render};

pub(crate) fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/consulting/edgar")
}

fn example(as_of: NaiveDate) -> Company {
    edgar::read(&fixture(), &Ticker::parse("EXMP").unwrap(), as_of).unwrap()
}

#[track_caller]
fn statement<'a>(company: &'a Company, period: &str) -> &'a Statement {
    let period = Period::parse(period).unwrap();
    company
        .annuals
        .iter()
        .chain(&company.quarters)
        .find(|it| it.period == period)
        .unwrap_or_else(|| panic!("there is no {period}"))
}

#[track_caller]
fn check(as_of: NaiveDate, cases: &[(&str, Item, Option<i64>)]) {
    let company = example(as_of);
    for (period, item, millions) in cases {
        let value = statement(&company, period).get(*item);
        assert_eq!(value, millions.map(|it| it * 1_000_000), "{item} of {period} as of {as_of}");
    }
}

#[test]
fn revenue_is_read_from_all_its_tags() {
    check(
        date(2024, 12, 31),
        &[
            ("FY2021", Item::Revenue, Some(900)),
            ("FY2022", Item::Revenue, Some(1000)),
            ("FY2023", Item::Revenue, Some(1110)),
            ("Q1 FY2024", Item::Revenue, Some(300)),
        ],
    );
}

#[test]
fn the_newer_of_two_tags_is_used() {
    check(date(2024, 12, 31), &[("FY2022", Item::CapitalExpenditure, Some(40))]);
}

#[test]
fn unreported_quarters_are_derived() {
    check(
        date(2024, 3, 1),
        &[
            ("Q4 FY2023", Item::Revenue, Some(1110 - 810)),
            // Only single quarters are reported for this item, so they are subtracted from the year one by one.
            ("Q4 FY2023", Item::CostOfRevenue, Some(640 - 150 - 155 - 160)),
            ("Q2 FY2023", Item::OperatingCashFlow, Some(80 - 35)),
            ("Q3 FY2023", Item::OperatingCashFlow, Some(130 - 80)),
            ("Q4 FY2023", Item::OperatingCashFlow, Some(190 - 130)),
            ("Q4 FY2023", Item::Assets, Some(2200)),
            // Averages cannot be derived by subtraction.
            ("Q4 FY2023", Item::DilutedShares, None),
        ],
    );
    let company = example(date(2024, 3, 1));
    let Origin::Derived { how, accessions, filed, .. } =
        &statement(&company, "Q4 FY2023").facts[&Item::OperatingCashFlow].origin
    else {
        panic!("a derived value must say so");
    };
    assert_eq!(how, "FY - 9M");
    assert_eq!(*filed, date(2024, 2, 22));
    assert_eq!(accessions, &["0009999999-23-000040", "0009999999-24-000010"]);
}

#[test]
fn restatements_apply_from_their_filing_date() {
    check(
        date(2024, 1, 1),
        &[("FY2022", Item::NetIncome, Some(110)), ("Q1 FY2023", Item::Revenue, Some(260))],
    );
    check(
        date(2024, 3, 1),
        &[("FY2022", Item::NetIncome, Some(104)), ("FY2023", Item::NetIncome, Some(128))],
    );
    check(
        date(2024, 12, 31),
        &[("FY2023", Item::NetIncome, Some(125)), ("Q1 FY2023", Item::Revenue, Some(261))],
    );
    let company = example(date(2024, 12, 31));
    let Origin::Filed { restated_from, form, .. } =
        &statement(&company, "FY2023").facts[&Item::NetIncome].origin
    else {
        panic!("a filed value must say so");
    };
    assert_eq!((*restated_from, form.as_str()), (Some(128_000_000), "10-K/A"));
}

#[test]
fn the_origin_of_a_value_is_the_first_filing_that_states_it() {
    let company = example(date(2024, 12, 31));
    let origin = statement(&company, "FY2022").facts[&Item::OperatingIncome].origin.to_string();
    assert_eq!(origin, "OperatingIncomeLoss, 10-K filed 2023-02-23, 0009999999-23-000010");
}

#[test]
fn filings_after_the_given_date_are_ignored() {
    let company = example(date(2023, 9, 1));
    assert_eq!(company.quarters.last().unwrap().period.to_string(), "Q2 FY2023");
    let early = edgar::read(&fixture(), &Ticker::parse("EXMP").unwrap(), date(2020, 1, 1));
    assert!(early.unwrap_err().to_string().contains("by 2020-01-01"));
}

#[test]
fn values_in_other_units_are_skipped_with_a_warning() {
    let company = example(date(2024, 12, 31));
    assert_eq!(statement(&company, "FY2023").get(Item::Inventory), None);
    assert_eq!(company.warnings, ["InventoryNet is reported in EUR, not in USD, and was ignored"]);
}

#[test]
fn ratios_are_computed() {
    let company = example(date(2024, 12, 31));
    let year = statement(&company, "FY2023");
    assert_eq!(ratio::free_cash_flow(year), Some(140_000_000));
    assert_eq!(ratio::net_debt(&company, year), Some(130_000_000));
    assert_eq!(ratio::earnings_per_share(year), Some(249));
    assert!((ratio::gross_margin(year).unwrap() - 470.0 / 1110.0).abs() < 1e-12);
    assert!((ratio::year_over_year(&company, year, Item::Revenue).unwrap() - 0.11).abs() < 1e-12);
    insta::assert_snapshot!("edgar_financial", render::financial(&company));
}

#[test]
fn companies_are_found_by_cik() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(fixture().join("EXMP.json"), folder.path().join("CIK0009999999.json")).unwrap();
    let list = r#"{"0": {"cik_str": 9999999, "ticker": "EX-B", "title": "Example"}}"#;
    std::fs::write(folder.path().join("company_tickers.json"), list).unwrap();
    let read = |ticker: &str| {
        edgar::read(folder.path(), &Ticker::parse(ticker).unwrap(), date(2024, 12, 31))
    };
    assert_eq!(read("EX.B").unwrap().annuals.len(), 3);
    assert!(read("EX.C").unwrap_err().to_string().contains("no data for EX.C"));
}

proptest! {
    #[test]
    fn broken_files_never_panic(cut in 0_usize..6000, junk in ".{0,8}") {
        let json = std::fs::read_to_string(fixture().join("EXMP.json")).unwrap();
        let mut cut = cut.min(json.len());
        while !json.is_char_boundary(cut) { cut -= 1; }
        let broken = format!("{}{junk}{}", &json[..cut], &json[cut..]);
        let _ = edgar::company(&Ticker::parse("EXMP").unwrap(), &broken, date(2024, 12, 31));
    }

    #[test]
    fn odd_dates_and_values_never_panic(
        start in "(19|20)[0-9]{2}-0[1-9]-[0-2][0-9]",
        end in "(19|20)[0-9]{2}-0[1-9]-[0-2][0-9]",
        value in any::<f64>(),
        whole in any::<i64>(),
    ) {
        let json = std::fs::read_to_string(fixture().join("EXMP.json")).unwrap();
        let value = if value.is_finite() { value } else { 0.0 };
        let odd = json.replace("2023-04-01", &end).replace("2023-01-01", &start).replace("640000000", &value.to_string())
            .replace("270000000", &whole.to_string());
        let _ = edgar::company(&Ticker::parse("EXMP").unwrap(), &odd, date(2024, 12, 31));
    }
}

/// Returns the directory with real filings, which are not part of the repository. The environment variable
/// `CONSULTING_EDGAR` specifies it. Without it, the test is skipped.
pub(crate) fn real_filings() -> Option<PathBuf> {
    let named = std::env::var_os("CONSULTING_EDGAR").map(PathBuf::from);
    let folder = named.filter(|it| it.is_dir());
    if folder.is_none() {
        report_skipped("set CONSULTING_EDGAR to a directory with companyfacts files");
    }
    folder
}

#[test]
fn data_of_real_companies_is_read() {
    let Some(folder) = real_filings() else { return };
    let day = date(2026, 10, 1);
    let read = |ticker: &str| edgar::read(&folder, &Ticker::parse(ticker).unwrap(), day).unwrap();

    let apple = read("AAPL");
    let revenue = &statement(&apple, "FY2025").facts[&Item::Revenue];
    assert_eq!(revenue.value, 416_161_000_000);
    assert!(revenue.origin.to_string().contains("0000320193-25-000079"), "{}", revenue.origin);

    let nvidia = read("NVDA");
    let revenues: Vec<i64> = nvidia.annuals.iter().filter_map(|it| it.get(Item::Revenue)).collect();
    assert_eq!(revenues, [26_974, 60_922, 130_497, 215_938].map(|it| it * 1_000_000));
    let fourth = statement(&nvidia, "Q4 FY2026");
    assert_eq!(fourth.get(Item::Revenue), Some((215_938 - 44_062 - 46_743 - 57_006) * 1_000_000));
    assert!(statement(&nvidia, "FY2026").get(Item::CapitalExpenditure).is_some());

    for ticker in ["AAPL", "NVDA", "GOOGL", "MRVL", "SNOW"] {
        let company = read(ticker);
        let periods: Vec<_> = company.quarters.iter().map(|it| it.period).collect();
        let mut sorted = periods.clone();
        sorted.sort_by_key(|it| (it.year, it.quarter));
        sorted.dedup();
        assert_eq!(periods, sorted, "{ticker}");
        assert!(company.annuals.iter().all(|it| it.get(Item::Revenue).is_some()), "{ticker}");
    }
}
