//! Validation of tickers.

use proptest::prelude::*;

use crate::data::Ticker;

#[test]
fn valid_tickers_are_normalized() {
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
fn invalid_tickers_are_rejected() {
    for text in [
        "", " ", "../etc", "a/b", "A..B", ".A", "A.", "A B", "A\nB", "NVDA;rm", "^", "A^",
        "\u{c4}", "TOOLONGTICKER",
    ] {
        assert!(Ticker::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn deserialization_validates_tickers() {
    assert!(serde_json::from_str::<Ticker>("\"../x\"").is_err());
    let ticker = Ticker::parse("BRK.B").unwrap();
    assert_eq!(
        serde_json::from_str::<Ticker>(&serde_json::to_string(&ticker).unwrap()).unwrap(),
        ticker
    );
}

proptest! {
    #[test]
    fn parsing_never_panics(text in ".{0,20}") {
        if let Ok(ticker) = Ticker::parse(&text) {
            prop_assert!(!ticker.slug().is_empty());
            prop_assert!(ticker.slug().chars().all(|it| it.is_ascii_alphanumeric() || it == '-'));
        }
    }
}
