//! Built-in detectors of personal data.

use std::{net::Ipv4Addr, ops::Range, sync::Arc};

use regex::Regex;

/// Finds personal data in a text. Returns byte ranges that do not overlap, in ascending order.
pub type Detector = Arc<dyn Fn(&str) -> Vec<Range<usize>> + Send + Sync>;

/// The built-in kinds.
pub(super) const KINDS: [&str; 5] = ["email", "credit_card", "ip", "mac_address", "url"];

const EMAIL: &str = r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}\b";
const CARD: &str = r"\b\d{4}[\s-]?\d{4}[\s-]?\d{4}[\s-]?\d{4}\b";
const IP: &str = r"\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b";
const MAC: &str = r"\b(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}\b";
const URL: &str = r#"https?://[^\s<>"{}|\\^`\[\]]+"#;
const BARE_URL: &str = r#"\b(?:www\.)?[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)+(?:/[^\s<>"{}|\\^`\[\]]*)?"#;

/// Returns the detector of a built-in kind.
pub(super) fn built_in(kind: &str) -> Option<Detector> {
    match kind {
        "email" => Some(pattern(EMAIL, |_| true)),
        "credit_card" => Some(pattern(CARD, passes_luhn)),
        "ip" => Some(pattern(IP, |it| it.parse::<Ipv4Addr>().is_ok())),
        "mac_address" => Some(pattern(MAC, |_| true)),
        "url" => Some(url()),
        _ => None,
    }
}

fn pattern(pattern: &str, accepts: fn(&str) -> bool) -> Detector {
    let pattern = compile(pattern);
    Arc::new(move |text| {
        pattern.find_iter(text).filter(|it| accepts(it.as_str())).map(|it| it.range()).collect()
    })
}

fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the built-in pattern is valid")
}

/// Detects URLs with a scheme, and URLs without one that start with `www.` or have a path.
fn url() -> Detector {
    let (with_scheme, bare) = (compile(URL), compile(BARE_URL));
    Arc::new(move |text| {
        let mut found: Vec<Range<usize>> =
            with_scheme.find_iter(text).map(|it| it.range()).collect();
        for candidate in bare.find_iter(text) {
            let range = candidate.range();
            let overlaps = found.iter().any(|it| it.start < range.end && range.start < it.end);
            let is_url = candidate.as_str().starts_with("www.") || candidate.as_str().contains('/');
            if is_url && !overlaps {
                found.push(range);
            }
        }
        found.sort_by_key(|it| it.start);
        found
    })
}

/// Returns whether the digits of a card number have a valid check digit.
fn passes_luhn(text: &str) -> bool {
    let digits = text.chars().rev().filter_map(|it| it.to_digit(10));
    let sum: u32 = digits
        .enumerate()
        .map(|(index, digit)| match (index % 2, digit * 2) {
            (0, _) => digit,
            (_, doubled) if doubled > 9 => doubled - 9,
            (_, doubled) => doubled,
        })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::built_in;

    #[test]
    fn detectors_find_only_valid_data() {
        let found = |kind: &str, text: &str| built_in(kind).unwrap()(text).len();
        assert_eq!(found("credit_card", "4111-1111-1111-1111 1234-5678-9012-3456"), 1);
        assert_eq!(found("ip", "192.168.1.77 999.1.1.1"), 1);
        assert_eq!(found("url", "https://x.org/p www.a.com example.com example.com/p"), 3);
        assert_eq!(found("email", "a@b.co and c.d@e.org"), 2);
    }
}
