//! What may name a company.

use consulting_graph::data::Ticker;
use proptest::prelude::*;

#[test]
fn tickers_as_exchanges_write_them() {
    for (text, ticker, slug) in [
        ("nvda", "NVDA", "nvda"),
        (" brk.b ", "BRK.B", "brk-b"),
        ("^GSPC", "^GSPC", "gspc"),
        ("0700.hk", "0700.HK", "0700-hk"),
    ] {
        let parsed = Ticker::parse(text).unwrap();
        assert_eq!((parsed.as_str(), parsed.slug().as_str()), (ticker, slug));
    }
}

#[test]
fn nothing_else_is_a_ticker() {
    for text in [
        "",
        " ",
        "../etc",
        "a/b",
        "A..B",
        ".A",
        "A.",
        "A B",
        "A\nB",
        "NVDA;rm",
        "^",
        "A^",
        "\u{c4}",
        "TOOLONGTICKER",
    ] {
        assert!(Ticker::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn a_stored_ticker_is_checked_too() {
    assert!(serde_json::from_str::<Ticker>("\"../x\"").is_err());
    let ticker = Ticker::parse("BRK.B").unwrap();
    assert_eq!(
        serde_json::from_str::<Ticker>(&serde_json::to_string(&ticker).unwrap()).unwrap(),
        ticker
    );
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,20}") {
        if let Ok(ticker) = Ticker::parse(&text) {
            prop_assert!(!ticker.slug().is_empty());
            prop_assert!(ticker.slug().chars().all(|it| it.is_ascii_alphanumeric() || it == '-'));
        }
    }
}
