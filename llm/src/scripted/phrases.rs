//! Text for generated strings, chosen by the name of the property.

use super::seeded_rng::SeededRng;

const SUBJECTS: [&str; 8] = [
    "The evidence",
    "The cost base",
    "The core market",
    "The proposed step",
    "The main risk",
    "The timeline",
    "The balance sheet",
    "The customer base",
];

const VERBS: [&str; 8] = [
    "supports a cautious start",
    "leaves room for a second phase",
    "is stronger than the last report suggested",
    "depends on one assumption that can be tested early",
    "is thin outside the largest segment",
    "allows a reversal within two quarters",
    "points to a moderate gain",
    "needs a named owner before it can move",
];

const NAMES: [&str; 8] = [
    "Quiet Harbour",
    "Second Ledger",
    "Northern Route",
    "Plain Offer",
    "Steady Hand",
    "Short Bridge",
    "Open Book",
    "Early Frost",
];

const WORDS: [&str; 8] =
    ["margin", "pricing", "supply", "retention", "capital", "delivery", "demand", "focus"];

/// Generates a text for a property with the given `format` keyword (may be empty) and name.
pub(crate) fn text(format: &str, name: &str, rng: &mut SeededRng) -> String {
    let (n, day) = (rng.between(1, 99), rng.between(10, 28));
    match format {
        "date" => return format!("2026-03-{day}"),
        "date-time" | "partial-date-time" => return format!("2026-03-{day}T09:{day}:00Z"),
        "time" | "partial-time" => return format!("09:{day}:00Z"),
        "uuid" => return format!("00000000-0000-4000-8000-0000000000{day}"),
        "email" => return format!("desk{n}@example.com"),
        "uri" | "url" => return format!("https://example.com/{n}"),
        "ipv4" | "ip" => return format!("192.0.2.{n}"),
        "ipv6" => return format!("2001:db8::{n}"),
        _ => {}
    }
    let name = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|it| name.contains(it));
    if has(&["reason", "rationale", "summary", "thesis", "explanation", "description", "comment"]) {
        format!("{} {}", sentence(rng), sentence(rng))
    } else if has(&["code", "program"]) {
        format!("print({n})")
    } else if has(&["title", "name"]) {
        pick(&NAMES, rng).to_owned()
    } else if name == "id" || name.ends_with("_id") {
        format!("x{n}")
    } else if has(&["tag", "keyword", "dependenc", "topic"]) {
        pick(&WORDS, rng).to_owned()
    } else {
        sentence(rng)
    }
}

/// Generates a generic sentence that could appear in a business report.
pub(crate) fn sentence(rng: &mut SeededRng) -> String {
    format!("{} {}.", pick(&SUBJECTS, rng), pick(&VERBS, rng))
}

/// Returns a distinct key for each `n`, to use as the key of the n-th entry of a map.
pub(crate) fn key(n: usize) -> String {
    match n / WORDS.len() {
        0 => WORDS[n].to_owned(),
        again => format!("{}_{again}", WORDS[n % WORDS.len()]),
    }
}

fn pick<'a>(words: &[&'a str], rng: &mut SeededRng) -> &'a str {
    words[rng.below(words.len())]
}
