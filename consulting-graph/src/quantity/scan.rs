//! Finds numbers in a text.

use super::{
    amount::{Quantity, Unit},
    word::{self, Modifier},
};

/// Returns all numbers that a text claims, in order.
pub(crate) fn claims(text: &str) -> Vec<Quantity> {
    let mut found: Vec<(Quantity, bool)> = Vec::new();
    let mut at = 0;
    while let Some(it) = text.get(at..).and_then(|rest| rest.chars().next()) {
        if it.is_ascii_digit() {
            let (end, number) = parse_number(text, at);
            found.extend(number);
            at = end;
        } else if it.is_alphabetic() || it == '_' {
            at = word_end(text, at);
        } else {
            at += it.len_utf8();
        }
    }
    merge_range_units(text, &mut found);
    found
        .into_iter()
        .filter(|(it, bare)| !(*bare && is_not_a_claim(text, it)))
        .map(|(it, _)| it)
        .collect()
}

/// Parses the amount in a table cell, such as `1,234`, `$1.2bn` or `(45)`, which means minus 45.
pub(crate) fn parse_amount(cell: &str) -> Option<f64> {
    let cell = cell.trim();
    let inner = cell.strip_prefix('(').and_then(|it| it.strip_suffix(')'));
    let (cell, negative) = match inner {
        Some(inner) => (inner, true),
        None => match cell.strip_prefix(['-', '\u{2212}']) {
            Some(rest) => (rest, true),
            None => (cell, false),
        },
    };
    let digits = cell.trim().trim_start_matches(['$', '+', ' ']);
    if !digits.starts_with(|it: char| it.is_ascii_digit()) {
        return None;
    }
    let (end, number) = parse_number(digits, 0);
    let value = number.filter(|_| digits[end..].trim().is_empty())?.0.value;
    Some(if negative { -value } else { value })
}

/// Parses the number whose first digit is at `start`. Returns the position at which to continue and, unless the number
/// is certainly not a claim, the number with a flag. The flag is true if the number has neither unit nor scale.
fn parse_number(text: &str, start: usize) -> (usize, Option<(Quantity, bool)>) {
    let (digits_end, written, decimals) = digits(text, start);
    if let Some(end) = date_or_rating_end(text, digits_end) {
        return (end, None);
    }
    let money = currency_before(text, start).then_some(Unit::Money);
    let mut read = ParsedNumber { end: digits_end, unit: money, factor: 1.0 };
    let tail = &text[digits_end..];
    let letters = prefix_while(tail, char::is_alphabetic);
    if let Some(after) = word::suffix_modifier(letters) {
        read.apply(after, digits_end + letters.len());
    } else if !letters.is_empty() || is_hyphenated(tail) {
        // The digits are part of a name, an ordinal or a duration, such as `5G`, `3rd`, `90s`, `10-K` or `12-month`.
        return (word_end(text, digits_end), None);
    }
    read.read_unit_words(text);
    if read.is_bare() && word::is_duration_unit(next_word(&text[read.end..])) {
        return (read.end, None);
    }
    let quantity = Quantity {
        at: sign_start(text, start)..read.end,
        value: written * read.factor,
        written,
        unit: read.unit.unwrap_or(Unit::Plain),
        step: read.factor * 0.1_f64.powi(decimals),
        approximate: hedged(text, start),
    };
    (read.end, Some((quantity, read.is_bare())))
}

/// Unit and scale of a number that is being parsed.
struct ParsedNumber {
    end: usize,
    unit: Option<Unit>,
    factor: f64,
}

impl ParsedNumber {
    fn is_bare(&self) -> bool {
        self.unit.is_none() && self.factor == 1.0
    }

    fn apply(&mut self, after: Modifier, end: usize) {
        let factor = match after {
            Modifier::Unit(unit, factor) => {
                self.unit = Some(unit);
                factor
            }
            Modifier::Scale(factor) => factor,
        };
        self.factor *= factor;
        self.end = end;
    }

    /// Parses the unit that follows the number: a percent sign, or up to two words such as `billion dollars`.
    fn read_unit_words(&mut self, text: &str) {
        for _ in 0..2 {
            let blanks = prefix_while(&text[self.end..], is_blank).len();
            let rest = &text[self.end + blanks..];
            if let Some(sign) = ["%", "per cent"].iter().find(|it| rest.starts_with(**it)) {
                return self
                    .apply(Modifier::Unit(Unit::Percent, 1.0), self.end + blanks + sign.len());
            }
            let letters = prefix_while(rest, char::is_alphabetic);
            let after = if word::is_currency(letters) {
                Some(Modifier::Unit(Unit::Money, 1.0))
            } else {
                word::word_modifier(letters)
            };
            let Some(after) = after.filter(|_| blanks > 0) else { return };
            self.apply(after, self.end + blanks + letters.len());
        }
    }
}

fn is_blank(it: char) -> bool {
    matches!(it, ' ' | '\u{a0}' | '\u{202f}')
}

fn is_hyphenated(text: &str) -> bool {
    text.strip_prefix('-').is_some_and(|it| it.starts_with(char::is_alphabetic))
}

fn next_word(text: &str) -> &str {
    prefix_while(text.trim_start_matches(is_blank), char::is_alphabetic)
}

/// Parses a number with optional thousands separators and decimal point. Returns the position of its end, its value and
/// its number of decimal places.
fn digits(text: &str, start: usize) -> (usize, f64, i32) {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = start;
    let mut plain = String::new();
    let mut decimals = None;
    while let Some(&byte) = bytes.get(end) {
        match byte {
            b'0'..=b'9' => {
                plain.push(char::from(byte));
                decimals = decimals.map(|it: i32| it.saturating_add(1));
            }
            b',' if decimals.is_none() && (1..4).all(|it| digit(end + it)) && !digit(end + 4) => {}
            b'.' if decimals.is_none() && digit(end + 1) => {
                plain.push('.');
                decimals = Some(0);
            }
            _ => break,
        }
        end += 1;
    }
    (end, plain.parse().unwrap_or(f64::MAX), decimals.unwrap_or(0))
}

/// Returns the end of a date (`2025-09-30`) or rating (`8/10`) whose first digits end at `end`.
fn date_or_rating_end(text: &str, end: usize) -> Option<usize> {
    let rest = &text[end..];
    let after = |sign: char| {
        let digits = prefix_while(rest.strip_prefix(sign)?, |it| it.is_ascii_digit());
        (!digits.is_empty()).then_some(end + sign.len_utf8() + digits.len())
    };
    if let Some(mark) = after('/') {
        return Some(mark);
    }
    let second = after('-')?;
    let third = prefix_while(text[second..].strip_prefix('-')?, |it| it.is_ascii_digit());
    (!third.is_empty()).then_some(second + 1 + third.len())
}

/// Returns the end of the word that starts at `start`. Hyphenated parts belong to the word, as in `F1-07` and
/// `COVID-19`.
fn word_end(text: &str, start: usize) -> usize {
    let mut end = start;
    loop {
        end += prefix_while(&text[end..], |it| it.is_alphanumeric() || it == '_').len();
        let hangs =
            text[end..].strip_prefix('-').is_some_and(|it| it.starts_with(char::is_alphanumeric));
        if !hangs {
            return end;
        }
        end += 1;
    }
}

fn prefix_while(text: &str, fits: impl Fn(char) -> bool) -> &str {
    let end = text.find(|it| !fits(it)).unwrap_or(text.len());
    &text[..end]
}

fn currency_before(text: &str, start: usize) -> bool {
    let before = text[..start].trim_end_matches([' ', '-', '\u{2212}']);
    before.ends_with(['$', '\u{20ac}', '\u{a3}']) || before.ends_with("USD")
}

/// Returns the position at which the number starts, including its currency sign.
fn sign_start(text: &str, start: usize) -> usize {
    let sign =
        text[..start].chars().next_back().filter(|it| ['$', '\u{20ac}', '\u{a3}'].contains(it));
    start - sign.map_or(0, char::len_utf8)
}

fn word_before(text: &str, start: usize) -> &str {
    let before = text[..start].trim_end_matches([' ', '$', '*']);
    let word = before.rfind(|it: char| !it.is_alphabetic());
    word.map_or(before, |at| {
        let width = before[at..].chars().next().map_or(1, char::len_utf8);
        &before[at + width..]
    })
}

fn hedged(text: &str, start: usize) -> bool {
    let before = text[..start].trim_end_matches([' ', '$']);
    before.ends_with(['~', '\u{2248}']) || word::is_hedge(word_before(text, start))
}

/// Gives both numbers of a range, such as `12-15%` or `$2 to 3 billion`, the same unit and scale.
fn merge_range_units(text: &str, found: &mut [(Quantity, bool)]) {
    for idx in 1..found.len() {
        let (left, right) = found.split_at_mut(idx);
        let (Some((first, first_bare)), Some((second, second_bare))) =
            (left.last_mut(), right.first_mut())
        else {
            continue;
        };
        let between = text.get(first.at.end..second.at.start).unwrap_or_default();
        let joins =
            matches!(between.trim_matches([' ', '$']), "-" | "\u{2013}" | "\u{2014}" | "to")
                || (between.trim() == "and" && word_before(text, first.at.start) == "between");
        let unit = if first.unit == Unit::Plain { second.unit } else { first.unit };
        // `by 7.9% to $9,112m` is not a range.
        let is_range = second.unit == Unit::Plain || second.unit == unit;
        if !joins || !is_range || unit == Unit::Plain {
            continue;
        }
        if first.value == first.written && second.written != 0.0 {
            let factor = second.value / second.written;
            first.value *= factor;
            first.step *= factor;
        }
        (first.unit, second.unit) = (unit, unit);
        (*first_bare, *second_bare) = (false, false);
    }
}

/// Returns whether a bare number is not a claim: a year, list number, label or small count.
fn is_not_a_claim(text: &str, it: &Quantity) -> bool {
    let whole = it.step == 1.0;
    let written = &text[it.at.clone()];
    let year = whole && written.len() == 4 && (1900.0..=2100.0).contains(&it.value);
    let line = text[..it.at.start].rfind('\n').map_or(0, |at| at + 1);
    let opens_line =
        text[line..it.at.start].chars().all(|it| it.is_whitespace() || it == '#' || it == '*');
    let numbered = opens_line && text[it.at.end..].starts_with(['.', ')', ':']);
    year || numbered
        || (whole && it.value <= 10.0)
        || word::is_label(word_before(text, it.at.start))
}
