//! A company's fiscal years, derived from the dates of its annual values.

use chrono::{Datelike, Days, NaiveDate};

use super::facts::Value;

/// The fiscal years in chronological order. The last one is the current year, which has not ended yet.
#[derive(Debug)]
pub(super) struct Calendar {
    years: Vec<Year>,
}

#[derive(Debug, Clone, Copy)]
struct Year {
    name: i32,
    start: NaiveDate,
    /// Last day of the year; an upper bound if the year has not ended yet.
    end: NaiveDate,
}

/// The fiscal period between a start date and an end date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Span {
    /// A single quarter: fiscal year and number of the quarter.
    Quarter(i32, u8),
    /// The first two, three or four quarters of a year: fiscal year and number of quarters.
    ToDate(i32, u8),
}

impl Calendar {
    /// Derives the fiscal years from the values of annual reports.
    pub(super) fn from_values<'a>(values: impl Iterator<Item = &'a Value>) -> Self {
        let annual =
            |it: &&Value| ["10-K", "20-F", "40-F"].iter().any(|form| it.form.starts_with(form));
        let mut spans: Vec<(NaiveDate, NaiveDate)> = values
            .filter(annual)
            .filter_map(|it| Some((it.end, it.start?)))
            .filter(|(end, start)| (350..=380).contains(&days(*start, *end)))
            .collect();
        spans.sort();
        // Later filings may shift the dates of a year by a few days; keep the span that ends first.
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

    /// Returns the fiscal period between two dates, or `None` if it does not consist of whole quarters.
    pub(super) fn classify(&self, start: NaiveDate, end: NaiveDate) -> Option<Span> {
        let year =
            self.years.iter().find(|it| days(it.start, start) > -4 && days(end, it.end) > -4)?;
        let from_start = days(year.start, start).abs() < 12;
        match days(start, end) {
            // A quarter may have twelve to fourteen weeks, so it is identified by a day near its middle.
            75..=105 => Some(Span::Quarter(year.name, quarter(days(year.start, start) + 45))),
            165..=200 if from_start => Some(Span::ToDate(year.name, 2)),
            255..=295 if from_start => Some(Span::ToDate(year.name, 3)),
            350..=380 if from_start => Some(Span::ToDate(year.name, 4)),
            _ => None,
        }
    }
}

/// Returns the name of the fiscal year that ends on the given date: the calendar year of that date, or the previous
/// calendar year if the fiscal year ends in early January.
fn name(end: NaiveDate) -> i32 {
    end.checked_sub_days(Days::new(10)).unwrap_or(end).year()
}

fn quarter(days_into_year: i64) -> u8 {
    u8::try_from(days_into_year / 91 + 1).unwrap_or(1).clamp(1, 4)
}

fn days(from: NaiveDate, to: NaiveDate) -> i64 {
    (to - from).num_days()
}
