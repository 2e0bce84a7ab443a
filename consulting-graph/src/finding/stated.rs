//! The numbers that a document states, with their periods, for checking the periods and units in findings.

use std::{collections::BTreeSet, ops::Range};

use crate::{
    data::Period,
    quantity::{Quantity, Unit, claims},
};

/// The numbers and periods in a document.
pub(super) struct StatedNumbers {
    periods: BTreeSet<Period>,
    numbers: Vec<StatedNumber>,
}

struct StatedNumber {
    quantity: Quantity,
    /// The periods that the table or line connects with the number.
    periods: Vec<Period>,
}

/// A period or unit in a claim that disagrees with the document. Texts are as written in the claim.
#[derive(Debug, PartialEq)]
pub(super) enum Disagreement {
    /// The document does not mention the period.
    UnknownPeriod(Period),
    /// The document states the number, but only for other periods.
    WrongPeriod { number: String, period: Period },
    /// The document states the number, but only in another unit.
    WrongUnit { number: String },
    /// An amount is written where a period should be, as in `$0.78 in $0.67`.
    AmountAsPeriod { text: String },
}

impl StatedNumbers {
    pub(super) fn new(document: &str) -> Self {
        let mut it = Self { periods: BTreeSet::new(), numbers: Vec::new() };
        let mut header: Vec<Vec<Period>> = Vec::new();
        for line in document.lines() {
            let periods: Vec<Period> = find_periods(line).into_iter().map(|it| it.1).collect();
            it.periods.extend(&periods);
            let Some(row) = line.trim().strip_prefix('|') else {
                header.clear();
                it.add(line, &periods);
                continue;
            };
            let cells: Vec<&str> = row.split('|').collect();
            if header.is_empty() {
                let periods = |cell: &&str| find_periods(cell).into_iter().map(|it| it.1).collect();
                header = cells.iter().map(periods).collect();
                continue;
            }
            for (idx, cell) in cells.iter().enumerate() {
                let column = header.get(idx).map_or(&[][..], Vec::as_slice);
                it.add(cell, &[column, &periods].concat());
            }
        }
        it
    }

    fn add(&mut self, text: &str, periods: &[Period]) {
        let number = |quantity| StatedNumber { quantity, periods: periods.to_vec() };
        self.numbers.extend(claims(text).into_iter().map(number));
    }

    /// Returns the periods and units in a claim that disagree with the document. Numbers that the document does not
    /// state at all are not reported.
    pub(super) fn disagreements(&self, claim: &str) -> Vec<Disagreement> {
        let (periods, numbers) = (find_periods(claim), claims(claim));
        let unknown = periods.iter().map(|it| it.1).filter(|it| !self.periods.contains(it));
        let mut found: Vec<Disagreement> = unknown.map(Disagreement::UnknownPeriod).collect();
        for (idx, number) in numbers.iter().enumerate() {
            let written = || claim[number.at.clone()].to_owned();
            let next = numbers.get(idx + 1);
            let is_amount = |it: &&Quantity| matches!(it.unit, Unit::Money | Unit::Multiple);
            let next = next.filter(is_amount);
            if let Some(next) = next.filter(|it| claim[number.at.end..it.at.start].trim() == "in") {
                let text = claim[number.at.start..next.at.end].to_owned();
                found.push(Disagreement::AmountAsPeriod { text });
            }
            let stated = || self.numbers.iter().filter(|it| it.quantity.supports(number));
            if stated().next().is_none() {
                let same_digits = |it: &&StatedNumber| it.quantity.written == number.written;
                if number.unit != Unit::Plain && self.numbers.iter().any(|it| same_digits(&it)) {
                    found.push(Disagreement::WrongUnit { number: written() });
                }
                continue;
            }
            let period = periods.iter().find(|it| {
                let between = claim.get(number.at.end..it.0.start);
                between.is_some_and(refers_to_period)
            });
            if let Some((_, period)) = period.filter(|it| self.periods.contains(&it.1))
                && !stated().any(|it| it.periods.contains(period))
            {
                let (number, period) = (written(), *period);
                found.push(Disagreement::WrongPeriod { number, period });
            }
        }
        found
    }
}

/// Returns whether the words between a number and a period say that the number belongs to the period.
fn refers_to_period(between: &str) -> bool {
    let words: Vec<&str> = between.split_whitespace().collect();
    matches!(words.as_slice(), ["in" | "for" | "during" | "of"] | ["at" | "by", "the", "end", "of"])
}

/// Finds the fiscal periods in a text, such as `FY2025` and `Q3 FY2025`.
fn find_periods(text: &str) -> Vec<(Range<usize>, Period)> {
    let is_part = |it: char| it.is_ascii_alphanumeric();
    let mut words: Vec<(Range<usize>, &str)> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let length = rest.find(|it| !is_part(it)).unwrap_or(rest.len());
        if length > 0 {
            words.push((at..at + length, &rest[..length]));
        }
        at += length + rest[length..].chars().next().map_or(0, char::len_utf8);
    }
    let mut found: Vec<(Range<usize>, Period)> = Vec::new();
    for (idx, (range, word)) in words.iter().enumerate() {
        let is_year = word.len() == 6 && word.starts_with("FY");
        let Some(year) = is_year.then(|| Period::parse(word).ok()).flatten() else { continue };
        let before = idx.checked_sub(1).map(|it| &words[it]).filter(|(before, word)| {
            word.len() == 2 && word.starts_with('Q') && &text[before.end..range.start] == " "
        });
        let quarter = before.and_then(|(before, quarter)| {
            let period = Period::parse(&format!("{quarter} {word}")).ok()?;
            Some((before.start..range.end, period))
        });
        found.push(quarter.unwrap_or((range.clone(), year)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "\
| Figure | Q3 FY2024 | Q3 FY2025 |
|---|---|---|
| Gross margin | 45.9% | 47.2% |

| Ratio | Period | Company |
|---|---|---|
| Earnings per share | Q3 FY2025 | $0.78 |
- Revenue was $5,000m in FY2025, up from $4,000m in FY2024.
";

    #[track_caller]
    fn check(claim: &str, expected: &[Disagreement]) {
        assert_eq!(StatedNumbers::new(DOCUMENT).disagreements(claim), expected, "{claim}");
    }

    #[test]
    fn periods_and_units_of_the_document_are_accepted() {
        check("Gross margin rose from 45.9% in Q3 FY2024 to 47.2% in Q3 FY2025.", &[]);
        check("Earnings per share were $0.78 in Q3 FY2025.", &[]);
        check("Revenue was $5 billion for FY2025.", &[]);
        check("Margins of 99% were never reached.", &[]);
    }

    #[test]
    fn periods_and_units_that_differ_from_the_document_are_reported() {
        let period = Period::parse("Q3 FY2024").unwrap();
        let number = "47.2%".to_owned();
        check(
            "Gross margin was 47.2% in Q3 FY2024.",
            &[Disagreement::WrongPeriod { number, period }],
        );
        let period = Period::parse("Q1 FY2031").unwrap();
        check("Gross margin was 47.2% in Q1 FY2031.", &[Disagreement::UnknownPeriod(period)]);
        let number = "47.2x".to_owned();
        check("Gross margin was 47.2x.", &[Disagreement::WrongUnit { number }]);
        let text = "$0.78 in $0.67".to_owned();
        check(
            "Earnings per share came to $0.78 in $0.67.",
            &[Disagreement::AmountAsPeriod { text }],
        );
    }
}
