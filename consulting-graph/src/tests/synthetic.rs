//! Synthetic companies: consistent books and clear labels.

use chrono::NaiveDate;
use proptest::prelude::*;

use super::sample::date;
use crate::data::{Company, Item, Statement, Ticker, ratio_table, render, synthetic};

fn invent(ticker: &str, as_of: NaiveDate) -> Company {
    synthetic::company(&Ticker::parse(ticker).unwrap(), as_of)
}

fn value_of(statement: &Statement, item: Item) -> i64 {
    statement.get(item).unwrap_or_else(|| panic!("{} has no {item}", statement.period))
}

fn check_books(it: &Statement) {
    let get = |item| value_of(it, item);
    assert_eq!(get(Item::GrossProfit), get(Item::Revenue) - get(Item::CostOfRevenue));
    let spent = get(Item::ResearchAndDevelopment) + get(Item::SellingAndAdministration);
    assert_eq!(get(Item::OperatingIncome), get(Item::GrossProfit) - spent);
    assert_eq!(get(Item::PretaxIncome), get(Item::OperatingIncome) + get(Item::OtherIncome));
    assert_eq!(get(Item::NetIncome), get(Item::PretaxIncome) - get(Item::IncomeTax));
    let paid = get(Item::CapitalExpenditure) + get(Item::Buybacks) + get(Item::Dividends);
    assert_eq!(
        get(Item::ChangeInCash),
        get(Item::OperatingCashFlow) - paid + get(Item::DebtRaised)
    );
    let current = get(Item::Cash)
        + get(Item::MarketableSecurities)
        + get(Item::Receivables)
        + get(Item::Inventory);
    assert_eq!(get(Item::CurrentAssets), current);
    assert_eq!(get(Item::Assets), current + get(Item::FixedAssets) + get(Item::Goodwill));
    assert_eq!(get(Item::Liabilities), get(Item::CurrentLiabilities) + get(Item::Debt));
    assert_eq!(get(Item::Assets), get(Item::Liabilities) + get(Item::Equity));
    assert!(get(Item::Cash) > 0);
}

/// Checks that a balance sheet equals the previous one plus the changes of the quarter.
fn check_continuity(before: &Statement, it: &Statement) {
    let get = |item| value_of(it, item);
    let grew = |item| get(item) - value_of(before, item);
    assert_eq!(grew(Item::Cash), get(Item::ChangeInCash));
    assert_eq!(grew(Item::Debt), get(Item::DebtRaised));
    assert_eq!(grew(Item::FixedAssets), get(Item::CapitalExpenditure) - get(Item::Depreciation));
    let kept = get(Item::NetIncome) + get(Item::ShareBasedCompensation)
        - get(Item::Buybacks)
        - get(Item::Dividends);
    assert_eq!(grew(Item::Equity), kept);
    let tied_up = grew(Item::Receivables) + grew(Item::Inventory) - grew(Item::Payables);
    let not_paid = get(Item::Depreciation) + get(Item::ShareBasedCompensation);
    assert_eq!(get(Item::OperatingCashFlow), get(Item::NetIncome) + not_paid - tied_up);
}

proptest! {
    #[test]
    fn the_books_are_consistent(ticker in "[A-Z]{1,5}", year in 1990_i32..2100, month in 1_u32..=12, day in 1_u32..=28) {
        let company = invent(&ticker, date(year, month, day));
        prop_assert!((12..=15).contains(&company.quarters.len()));
        prop_assert_eq!(company.annuals.len(), 3);
        company.quarters.iter().chain(&company.annuals).for_each(check_books);
        company.quarters.windows(2).for_each(|it| check_continuity(&it[0], &it[1]));
        for annual in &company.annuals {
            let quarters: Vec<_> = company.quarters.iter().filter(|it| it.period.year == annual.period.year).collect();
            for item in [Item::Revenue, Item::NetIncome, Item::OperatingCashFlow, Item::ChangeInCash] {
                prop_assert_eq!(value_of(annual, item), quarters.iter().map(|it| value_of(it, item)).sum::<i64>());
            }
            prop_assert_eq!(value_of(annual, Item::Assets), value_of(quarters[3], Item::Assets));
        }
        for (quarter, split) in company.quarters.iter().zip(&company.segments) {
            prop_assert_eq!(value_of(quarter, Item::Revenue), split.parts.iter().map(|it| it.1).sum::<i64>());
        }
        for (quarter, split) in company.quarters.iter().zip(&company.geography) {
            prop_assert_eq!(value_of(quarter, Item::Revenue), split.parts.iter().map(|it| it.1).sum::<i64>());
        }
        // The company has no data after the given date.
        prop_assert!(company.quarters.iter().all(|it| it.end.unwrap() < company.as_of));
    }

    #[test]
    fn any_date_is_accepted(ticker in "[A-Z]{1,5}", days in any::<i32>()) {
        if let Some(day) = NaiveDate::from_num_days_from_ce_opt(days) {
            render::financial(&invent(&ticker, day));
        }
    }
}

#[test]
fn different_tickers_give_different_companies() {
    let day = date(2026, 3, 1);
    let (a, b) = (invent("NVDA", day), invent("NVDB", day));
    assert_ne!(a.quarters, b.quarters);
    assert_eq!(a, invent("nvda", day));
}

#[test]
fn documents_are_labelled_as_synthetic() {
    let company = invent("NVDA", date(2026, 3, 1));
    for text in [render::financial(&company), render::news(&company)] {
        assert!(text.contains("SYNTHETIC DATA"), "{text}");
    }
    assert!(company.name.contains("Synthetic"));
}

#[test]
fn news_contains_conflicting_signals() {
    let news = invent("NVDA", date(2026, 3, 1)).news.unwrap();
    let sounds: std::collections::BTreeSet<_> =
        news.items.iter().map(|it| format!("{:?}", it.sentiment)).collect();
    assert_eq!(sounds.len(), 3);
    let advice: std::collections::BTreeSet<_> = news.ratings.iter().map(|it| &it.advice).collect();
    assert_eq!(advice.len(), 3);
}

#[test]
fn sector_ratios_match_a_company_ratio() {
    let company = invent("SNOW", date(2026, 3, 1));
    let table = ratio_table::table(&company);
    for sector in &company.sector_ratios {
        assert!(
            table.iter().any(|it| it.name == sector.name && it.sector.is_some()),
            "{}",
            sector.name
        );
    }
    assert!(!company.sector_ratios.is_empty());
}

#[test]
fn the_documents_of_one_company() {
    let company = invent("NVDA", date(2026, 3, 1));
    insta::assert_snapshot!("synthetic_financial", render::financial(&company));
    insta::assert_snapshot!("synthetic_news", render::news(&company));
}

#[test]
fn gaps_between_quarters_are_reported() {
    let mut company = synthetic::company(&Ticker::parse("NVDA").unwrap(), date(2026, 3, 1));
    assert!(!render::financial(&company).contains("no data between"));
    let gap = company.quarters.len() - 3;
    let gone = company.quarters.drain(gap..=gap).map(|it| it.period).collect::<Vec<_>>();
    let (before, after) = (company.quarters[gap - 1].period, company.quarters[gap].period);
    let note = format!("Note: no data between {before} and {after}.\n");
    assert!(render::financial(&company).contains(&note), "{gone:?}");
}
