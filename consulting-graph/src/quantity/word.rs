//! The words around a number that say what it is.

use super::Unit;

/// What a word after a number makes of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum After {
    /// The number counts this.
    Unit(Unit, f64),
    /// The number is this many times larger.
    Scale(f64),
}

/// What stands directly behind the digits, without a blank: `12bn`, `2x`, `3rd`.
pub(super) fn suffix(letters: &str) -> Option<After> {
    match letters {
        "x" | "X" => Some(After::Unit(Unit::Times, 1.0)),
        "pp" | "pts" => Some(After::Unit(Unit::Percent, 1.0)),
        "bp" | "bps" => Some(After::Unit(Unit::Percent, 0.01)),
        _ => scale(letters),
    }
}

/// A word after a blank: `12 billion`, `3 percent`.
pub(super) fn following(word: &str) -> Option<After> {
    match word.to_ascii_lowercase().as_str() {
        "percent" | "percentage" | "pp" | "pct" => Some(After::Unit(Unit::Percent, 1.0)),
        "bp" | "bps" | "basis" => Some(After::Unit(Unit::Percent, 0.01)),
        "times" | "x" => Some(After::Unit(Unit::Times, 1.0)),
        // Single letters are too often something else when a blank stands before them.
        "m" | "b" | "k" | "t" => None,
        lower => scale(lower),
    }
}

/// Whether a word after a number makes it a duration.
pub(super) fn is_time(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let units = ["second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade"];
    units.contains(&lower.strip_suffix('s').unwrap_or(&lower))
}

fn scale(letters: &str) -> Option<After> {
    let factor = match letters {
        "k" | "K" | "thousand" => 1e3,
        "m" | "M" | "mn" | "mm" | "MM" | "million" | "millions" => 1e6,
        "b" | "B" | "bn" | "Bn" | "BN" | "billion" | "billions" => 1e9,
        "t" | "T" | "tn" | "trn" | "trillion" | "trillions" => 1e12,
        _ => return None,
    };
    Some(After::Scale(factor))
}

/// Whether a word after the number and its scale says that it is money.
pub(super) fn is_currency(word: &str) -> bool {
    matches!(
        word.to_ascii_lowercase().as_str(),
        "dollars" | "dollar" | "usd" | "eur" | "euros" | "gbp"
    )
}

/// Whether a word before a number makes it a label: `round 12`, `step 11`.
pub(super) fn labels(word: &str) -> bool {
    matches!(
        word.to_ascii_lowercase().as_str(),
        "round"
            | "rounds"
            | "step"
            | "phase"
            | "section"
            | "item"
            | "page"
            | "chapter"
            | "appendix"
            | "table"
            | "figure"
            | "no"
            | "top"
            | "number"
            | "january"
            | "february"
            | "march"
            | "april"
            | "may"
            | "june"
            | "july"
            | "august"
            | "september"
            | "october"
            | "november"
            | "december"
    )
}

/// Whether a word before a number makes it approximate.
pub(super) fn hedges(word: &str) -> bool {
    matches!(
        word.to_ascii_lowercase().as_str(),
        "about"
            | "around"
            | "roughly"
            | "nearly"
            | "almost"
            | "approximately"
            | "some"
            | "over"
            | "under"
            | "above"
            | "below"
            | "than"
            | "least"
            | "most"
            | "circa"
            | "ca"
    )
}
