//! Words next to a number that determine the meaning of the number.

use super::amount::Unit;

/// Effect of a word or suffix after a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Modifier {
    /// Sets the unit and multiplies the value by a factor.
    Unit(Unit, f64),
    /// Multiplies the value by a factor.
    Scale(f64),
}

/// Interprets letters directly after the digits, as in `12bn` or `2x`.
pub(super) fn suffix_modifier(letters: &str) -> Option<Modifier> {
    match letters {
        "x" | "X" => Some(Modifier::Unit(Unit::Multiple, 1.0)),
        "pp" | "pts" => Some(Modifier::Unit(Unit::Percent, 1.0)),
        "bp" | "bps" => Some(Modifier::Unit(Unit::Percent, 0.01)),
        _ => scale(letters),
    }
}

/// Interprets a separate word after the digits, as in `12 billion` or `3 percent`.
pub(super) fn word_modifier(word: &str) -> Option<Modifier> {
    match word.to_ascii_lowercase().as_str() {
        "percent" | "percentage" | "pp" | "pct" => Some(Modifier::Unit(Unit::Percent, 1.0)),
        "bp" | "bps" | "basis" => Some(Modifier::Unit(Unit::Percent, 0.01)),
        "times" | "x" => Some(Modifier::Unit(Unit::Multiple, 1.0)),
        // Single letters after a space usually mean something else.
        "m" | "b" | "k" | "t" => None,
        lower => scale(lower),
    }
}

/// Returns whether a word after a number makes the number a duration.
pub(super) fn is_duration_unit(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let units = ["second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade"];
    units.contains(&lower.strip_suffix('s').unwrap_or(&lower))
}

fn scale(letters: &str) -> Option<Modifier> {
    let factor = match letters {
        "k" | "K" | "thousand" => 1e3,
        "m" | "M" | "mn" | "mm" | "MM" | "million" | "millions" => 1e6,
        "b" | "B" | "bn" | "Bn" | "BN" | "billion" | "billions" => 1e9,
        "t" | "T" | "tn" | "trn" | "trillion" | "trillions" => 1e12,
        _ => return None,
    };
    Some(Modifier::Scale(factor))
}

/// Returns whether a word after a number makes the number an amount of money.
pub(super) fn is_currency(word: &str) -> bool {
    is_one_of(word, &["dollars", "dollar", "usd", "eur", "euros", "gbp"])
}

/// Returns whether a word before a number makes the number a label, as in `round 12` or `step 11`.
pub(super) fn is_label(word: &str) -> bool {
    const WORDS: &[&str] = &[
        "round", "rounds", "step", "phase", "section", "item", "page", "chapter", "appendix",
        "table", "figure", "no", "top", "number", "january", "february", "march", "april", "may",
        "june", "july", "august", "september", "october", "november", "december",
    ];
    is_one_of(word, WORDS)
}

/// Returns whether a word before a number makes the number approximate.
pub(super) fn is_hedge(word: &str) -> bool {
    const WORDS: &[&str] = &[
        "about", "around", "roughly", "nearly", "almost", "approximately", "some", "over", "under",
        "above", "below", "than", "least", "most", "circa", "ca",
    ];
    is_one_of(word, WORDS)
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.contains(&word.to_ascii_lowercase().as_str())
}
