use proptest::prelude::*;

use super::{Quantity, Unit, claims, parse_amount};
use crate::data::number;

/// Renders numbers as unit and value, with `~` before approximate ones.
fn shown(text: &str) -> Vec<String> {
    let show = |it: &Quantity| {
        let unit = match it.unit {
            Unit::Percent => "%",
            Unit::Money => "$",
            Unit::Multiple => "x",
            Unit::Plain => "",
        };
        let value = (it.value * 1e6).round() / 1e6;
        format!("{}{unit}{value}", if it.approximate { "~" } else { "" })
    };
    claims(text).iter().map(show).collect()
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(shown(text), expected, "{text}");
}

#[test]
fn units_are_parsed() {
    check("grew 12.5%", &["%12.5"]);
    check("grew 12.5 % and 3 percent and 4 per cent", &["%12.5", "%3", "%4"]);
    check("down 150 basis points, or 150bps", &["%1.5", "%1.5"]);
    check("2.5 percentage points", &["%2.5"]);
    check(
        "$4.2bn, $4.2 billion, $4,200m, USD 4.2 billion, 4.2 billion dollars",
        &["$4200000000", "$4200000000", "$4200000000", "$4200000000", "$4200000000"],
    );
    check("-$7.3m and $-7.3m", &["$7300000", "$7300000"]);
    check("2,460m shares at $131.29 per share", &["2460000000", "$131.29"]);
    check("trades at 2.4x, or 3 times book", &["x2.4", "x3"]);
    check("about $3bn; more than 40%; ~12%", &["~$3000000000", "~%40", "~%12"]);
    check("125 branches", &["125"]);
}

#[test]
fn ranges_share_their_unit() {
    check("12-15%", &["%12", "%15"]);
    check("12 to 15%", &["%12", "%15"]);
    check("$2\u{2013}3 billion", &["$2000000000", "$3000000000"]);
    check("between 30 and 40 percent", &["%30", "%40"]);
    check("between $3,985m and $4,144m.", &["$3985000000", "$4144000000"]);
    check("It grew by 7.9% to $9,112m.", &["%7.9", "$9112000000"]);
    check("It costs $2 to 3 billion.", &["$2000000000", "$3000000000"]);
}

#[test]
fn dates_ids_and_counts_are_ignored() {
    for text in [
        "in 2025, FY2026 and Q3 FY2025",
        "since 2025-09-30",
        "see [F1-07] and F2-11, m14, D1 and i2",
        "a 10-K and a 12-month plan over 18 months, 90 days and 12 years",
        "Round 12 of the debate; step 11",
        "scores 8/10 and 98/120",
        "three reasons, 3 plants, 10 sites",
        "12. The twelfth point\n13) The next",
        "5G, 3rd, COVID-19, the 1990s",
    ] {
        check(text, &[]);
    }
}

#[test]
fn support_allows_for_rounding() {
    let supports = |source: &str, claim: &str| claims(source)[0].supports(&claims(claim)[0]);
    assert!(supports("$12,345m", "$12.3bn"));
    assert!(supports("41.3%", "41%"));
    assert!(!supports("41.3%", "42%"));
    assert!(!supports("41%", "41.3%"));
    assert!(supports("41.3%", "about 42%"));
    assert!(!supports("41.3%", "about 45%"));
    assert!(!supports("41.3%", "$41.3"));
    assert!(supports("$12,345m", "12,345"));
    assert!(!supports("$12,345m", "12,346"));
    assert!(supports("$12,345m", "about $12 billion"));
    assert!(!supports("$12,345m", "sales of $12.4bn"));
    // Scales without a unit match any currency.
    assert!(supports("Revenue was $9,112m.", "sales of 9.1 billion"));
    assert!(supports("Revenue was $9,112m.", "the table has 9,112"));
    assert!(!supports("Revenue was $9,112m.", "sales of 9.2 billion"));
    assert!(!supports("It grew by 7.9%.", "it has 7.9 million users"));
    assert!(!supports("It grew by 7.9%.", "it has 15 billion users"));
}

#[test]
fn amounts_are_parsed() {
    assert_eq!(parse_amount("$1.2bn"), Some(1.2e9));
    assert_eq!(parse_amount("(45)"), Some(-45.0));
    assert_eq!(parse_amount("n/a"), None);
}

proptest! {
    #[test]
    fn parsing_never_panics(text in "(?s).{0,80}", digits in "[-0-9.,$%xmbkMB /()a-zA-Z\u{2013}\u{e9}]{0,60}") {
        for it in [&text, &digits] {
            for claim in claims(it) {
                prop_assert!(it.get(claim.at.clone()).is_some());
                prop_assert!(claim.supports(&claim));
            }
            parse_amount(it);
        }
    }

    #[test]
    fn formatted_amounts_round_trip(millions in -9_999_999_i64..9_999_999) {
        let text = number::dollars(millions * 1_000_000);
        prop_assert_eq!(parse_amount(&text), Some(millions as f64 * 1e6));
    }
}
