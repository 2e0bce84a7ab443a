//! A company's fiscal years, found from the spans of its yearly values.

use chrono::{Datelike, Days, NaiveDate};

use super::facts::Value;

/// Fiscal years in order, the open one last.
#[derive(Debug)]
pub(super) struct Calendar {
    years: Vec<Year>,
}

#[derive(Debug, Clone, Copy)]
struct Year {
    name: i32,
    start: NaiveDate,
    /// Far away for the open year.
    end: NaiveDate,
}

/// What a value with a beginning and an end is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Span {
    /// A quarter by itself.
    Quarter(i32, u8),
    /// The first so many quarters of a year, from two to four.
    ToDate(i32, u8),
}

impl Calendar {
    /// Finds the years among the values of annual reports.
    pub(super) fn of<'a>(values: impl Iterator<Item = &'a Value>) -> Self {
        let annual =
            |it: &&Value| ["10-K", "20-F", "40-F"].iter().any(|form| it.form.starts_with(form));
        let mut spans: Vec<(NaiveDate, NaiveDate)> = values
            .filter(annual)
            .filter_map(|it| Some((it.end, it.start?)))
            .filter(|(end, start)| (350..=380).contains(&days(*start, *end)))
            .collect();
        spans.sort();
        // A comparative may be a few days off; the year's own span is the one that comes first.
        spans.dedup_by(|later, earlier| days(earlier.0, later.0) < 300);
        let mut years: Vec<Year> =
            spans.into_iter().map(|(end, start)| Year { name: name(end), start, end }).collect();
        if let Some(last) = years.last().copied() {
            let start = last.end.succ_opt().unwrap_or(last.end);
            let end = start.checked_add_days(Days::new(380)).unwrap_or(start);
            years.push(Year { name: last.name.saturating_add(1), start, end });
        }
        Self { years }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.years.is_empty()
    }

    /// Says what a span of days is; none when it is neither quarters nor a year.
    pub(super) fn place(&self, start: NaiveDate, end: NaiveDate) -> Option<Span> {
        let year =
            self.years.iter().find(|it| days(it.start, start) > -4 && days(end, it.end) > -4)?;
        let from_start = days(year.start, start).abs() < 12;
        match days(start, end) {
            // The middle of the quarter says which it is, be its weeks twelve or fourteen.
            75..=105 => Some(Span::Quarter(year.name, quarter(days(year.start, start) + 45))),
            165..=200 if from_start => Some(Span::ToDate(year.name, 2)),
            255..=295 if from_start => Some(Span::ToDate(year.name, 3)),
            350..=380 if from_start => Some(Span::ToDate(year.name, 4)),
            _ => None,
        }
    }
}

/// A year is named after the one it ends in, and one that ends in the first days of January after the one before.
fn name(end: NaiveDate) -> i32 {
    end.checked_sub_days(Days::new(10)).unwrap_or(end).year()
}

fn quarter(days_into_year: i64) -> u8 {
    u8::try_from(days_into_year / 91 + 1).unwrap_or(1).clamp(1, 4)
}

fn days(from: NaiveDate, to: NaiveDate) -> i64 {
    (to - from).num_days()
}
