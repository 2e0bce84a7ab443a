//! A company's fiscal years, derived from the dates of its annual values.

use chrono::{Datelike, Days, NaiveDate};

use super::facts::Value;

/// Fiscal years in order; the last one is the current, unfinished year.
#[derive(Debug)]
pub(super) struct Calendar {
    years: Vec<Year>,
}

#[derive(Debug, Clone, Copy)]
struct Year {
    name: i32,
    start: NaiveDate,
    /// For the unfinished year, an upper bound.
    end: NaiveDate,
}

/// The fiscal period that a start and end date stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Span {
    /// A single quarter.
    Quarter(i32, u8),
    /// The first two, three or four quarters of a year.
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
        // Later filings may shift the dates by a few days; keep the earliest span of each year.
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

    /// Maps a span of days to a fiscal period; `None` if it is not one or more whole quarters.
    pub(super) fn classify(&self, start: NaiveDate, end: NaiveDate) -> Option<Span> {
        let year =
            self.years.iter().find(|it| days(it.start, start) > -4 && days(end, it.end) > -4)?;
        let from_start = days(year.start, start).abs() < 12;
        match days(start, end) {
            // Its midpoint identifies the quarter, whether it has twelve or fourteen weeks.
            75..=105 => Some(Span::Quarter(year.name, quarter(days(year.start, start) + 45))),
            165..=200 if from_start => Some(Span::ToDate(year.name, 2)),
            255..=295 if from_start => Some(Span::ToDate(year.name, 3)),
            350..=380 if from_start => Some(Span::ToDate(year.name, 4)),
            _ => None,
        }
    }
}

/// Names a fiscal year after the calendar year it ends in; one that ends in early January, after the year before.
fn name(end: NaiveDate) -> i32 {
    end.checked_sub_days(Days::new(10)).unwrap_or(end).year()
}

fn quarter(days_into_year: i64) -> u8 {
    u8::try_from(days_into_year / 91 + 1).unwrap_or(1).clamp(1, 4)
}

fn days(from: NaiveDate, to: NaiveDate) -> i64 {
    (to - from).num_days()
}
