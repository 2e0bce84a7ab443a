//! Company data from the user's own files.

use std::path::Path;

use proptest::prelude::*;

use super::sample::date;
use crate::data::{
    Item, Ticker,
    folder::{self, InputFile},
    ratio, render,
};

fn ticker() -> Ticker {
    Ticker::parse("CORNER").unwrap()
}

fn file(name: &str, text: &str) -> InputFile {
    InputFile { name: name.to_owned(), text: text.to_owned() }
}

#[track_caller]
fn check_error(files: &[InputFile], expected: &str) {
    let error = folder::company(&ticker(), files, date(2026, 6, 1)).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn all_file_types_are_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/consulting/folder");
    let company = folder::read(&path, &ticker(), date(2026, 6, 1)).unwrap();
    assert_eq!(company.name, "Corner Shops Ltd");
    let year = &company.annuals[1];
    assert_eq!(year.get(Item::Revenue), Some(1_500_000_000));
    assert_eq!(ratio::free_cash_flow(year), Some(-135_000_000));
    assert_eq!(year.facts[&Item::Revenue].origin.to_string(), "statements.csv:2");
    assert_eq!(
        year.facts[&Item::NetIncome].origin.to_string(),
        "company.json:periods.FY2025.net_income"
    );
    insta::assert_snapshot!("folder_financial", render::financial(&company));
    insta::assert_snapshot!("folder_news", render::news(&company));
}

#[test]
fn errors_name_file_and_location() {
    let empty = tempfile::tempdir().unwrap();
    let error = folder::read(empty.path(), &ticker(), date(2026, 6, 1)).unwrap_err().to_string();
    let place = empty.path().display();
    assert_eq!(error, format!("no .csv, .json, .md or .txt file in {place}; add at least one"));
    check_error(
        &[file("a.csv", "item,FY2025\n\"Revenue,100\nCash,7\n")],
        "a.csv:2: a quote is not closed; close it, or double a quote that belongs to the text",
    );
    check_error(
        &[file("a.csv", "item,FY2024\nrevenue,many\n")],
        "a.csv:2: \"many\" is not an amount; write 1234, 1,234, $1.2bn or (45), or leave the cell empty",
    );
    check_error(
        &[file("a.csv", "item,FY2024\nnet income,3%\n")],
        "a.csv:2: \"3%\" is not an amount; write 1234, 1,234, $1.2bn or (45), or leave the cell empty",
    );
    check_error(
        &[file("a.csv", "item,last year\n")],
        "a.csv:1: \"last year\" is not a fiscal period; use FY2025 for a year or Q3 FY2025 for a quarter",
    );
    check_error(
        &[
            file("a.csv", "item,FY2024\nrevenue,5\n"),
            file("b.json", r#"{"periods": {"FY2024": {"revenue": 6}}}"#),
        ],
        "b.json:periods.FY2024.revenue: Revenue of FY2024 is 6 here but 5 in a.csv:2; remove one of them",
    );
    check_error(
        &[file("a.csv", "item,FY2024\nrevenue,1,234\n")],
        "a.csv:2: the row has 2 values, but the header only 1; put values that contain commas in quotes",
    );
    check_error(
        &[file("a.csv", "item\tFY2024\nrevenue\t5\n")],
        "a.csv:1: the header has one cell; separate the periods with commas or semicolons, as in `item,FY2024,FY2025`",
    );
}

#[test]
fn files_without_data_are_an_error() {
    let no_data = "the files contain no figures and no text up to 2026-06-01; add data to them, or choose a later date \
                   with --as-of";
    for (name, text) in [
        ("a.csv", ""),
        ("a.csv", "item,FY2024\n"),
        ("a.csv", "item,FY2030\nrevenue,5\n"),
        ("a.json", "{}"),
        ("a.md", " \n"),
    ] {
        check_error(&[file(name, text)], no_data);
    }
}

#[test]
fn tables_may_be_in_millions() {
    let text = "in millions,FY2024\nrevenue,\"1,500.5\"\nnet income,$2bn\ndiluted shares,12\n";
    let company = folder::company(&ticker(), &[file("a.csv", text)], date(2026, 6, 1)).unwrap();
    let year = &company.annuals[0];
    assert_eq!(year.get(Item::Revenue), Some(1_500_500_000));
    assert_eq!(
        year.get(Item::NetIncome),
        Some(2_000_000_000),
        "the unit in the cell takes precedence"
    );
    assert_eq!(year.get(Item::DilutedShares), Some(12_000_000));
    assert_eq!(company.warnings, [""; 0]);
}

#[test]
fn probable_mistakes_cause_warnings() {
    let text = "item,FY2024\nrevnue,900\nnet income,150\nstores,12\n";
    let company = folder::company(&ticker(), &[file("a.csv", text)], date(2026, 6, 1)).unwrap();
    assert_eq!(
        company.warnings,
        [
            "a.csv:2: `revnue` was read as a business metric; did you mean `Revenue`?",
            "a.csv: all amounts are below $10,000; if they are in millions, write `in millions` in the first cell",
        ]
    );
    assert!(render::financial(&company).contains("$150"), "and nothing is rounded away");
}

#[test]
fn periods_after_the_given_date_are_ignored() {
    let table = "in millions,FY2023,FY2024,Q2 FY2024,Q3 FY2024,FY2025\nrevenue,1,2,3,4,5\nshops,6,7,8,9,10\n";
    let read = |files: &[InputFile]| folder::company(&ticker(), files, date(2024, 6, 30)).unwrap();
    let shown = |company: &crate::data::Company| {
        let all = company.annuals.iter().chain(&company.quarters);
        all.map(|it| it.period.to_string()).collect::<Vec<_>>().join(", ")
    };
    // FY2024 is kept with a warning. The end of the fiscal year is unknown, so FY2024 may have ended in January.
    let company = read(&[file("a.csv", table)]);
    assert_eq!(shown(&company), "FY2023, FY2024, Q2 FY2024, Q3 FY2024");
    assert_eq!(
        company.warnings,
        [
            "periods ignored because they end after 2024-06-30: FY2025",
            "periods that may end after 2024-06-30: FY2024, Q3 FY2024; state the end of the fiscal year as \
             `fiscal_year_end` in a .json file, for example \"01-31\"",
        ]
    );
    let text = render::financial(&company);
    assert!(
        text.contains("Note: periods ignored because they end after 2024-06-30: FY2025."),
        "{text}"
    );
    assert!(!text.contains("10 in FY2025"), "{text}");

    let ends = |day: &str| file("b.json", &format!(r#"{{"fiscal_year_end": "{day}"}}"#));
    let company = read(&[file("a.csv", table), ends("12-31")]);
    assert_eq!(shown(&company), "FY2023, Q2 FY2024");
    assert_eq!(
        company.warnings,
        ["periods ignored because they end after 2024-06-30: FY2024, Q3 FY2024, FY2025"]
    );
    assert_eq!(
        shown(&read(&[file("a.csv", table), ends("01-31")])),
        "FY2023, FY2024, Q2 FY2024, Q3 FY2024"
    );
    check_error(
        &[ends("13-01")],
        "b.json:fiscal_year_end: \"13-01\" is not a month and day; write it as 01-31",
    );
}

#[test]
fn net_debt_is_unknown_if_securities_are_missing_in_one_year() {
    let net_debt = |securities: &str| {
        let table = format!("item,FY2024,FY2025\ncash,10,10\ndebt,50,50\n{securities}");
        let company =
            folder::company(&ticker(), &[file("a.csv", &table)], date(2026, 6, 1)).unwrap();
        company.annuals.iter().map(|it| ratio::net_debt(&company, it)).collect::<Vec<_>>()
    };
    assert_eq!(net_debt(""), [Some(40), Some(40)]);
    assert_eq!(net_debt("marketable securities,5,"), [Some(35), None]);
}

proptest! {
    #[test]
    fn reading_never_panics(text in "(?s).{0,200}", table in "item,FY2024,Q[0-9] ?F?Y?2025\n([a-zA-Z ]{0,9},[-0-9,.$()%a-z]{0,9}\n){0,4}") {
        for name in ["a.csv", "a.json", "a.md"] {
            for text in [&text, &table] {
                if let Ok(company) = folder::company(&ticker(), &[file(name, text)], date(2026, 6, 1)) {
                    render::financial(&company);
                }
            }
        }
    }
}
