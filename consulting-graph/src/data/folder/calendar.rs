//! Decides which fiscal periods had ended by the cut-off date.

use std::collections::BTreeSet;

use chrono::{Datelike, Months, NaiveDate};

use super::super::statement::Period;

/// Compares the ends of fiscal periods with the cut-off date, and records the periods that are excluded or uncertain.
///
/// A fiscal year is named after the calendar year in which it ends. If no file states on which day the fiscal year
/// ends, a period is excluded only if it ends after the cut-off date for every possible fiscal year end.
#[derive(Debug)]
pub(super) struct Calendar {
    as_of: NaiveDate,
    year_end: Option<YearEnd>,
    excluded: BTreeSet<Period>,
    uncertain: BTreeSet<Period>,
}

/// Month and day on which a fiscal year ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct YearEnd {
    month: u32,
    day: u32,
}

impl YearEnd {
    /// Parses a month and a day, as in `01-31`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (month, day) = text.trim().split_once('-')?;
        let (month, day) = (month.parse().ok()?, day.parse().ok()?);
        // Validate against a leap year so that February 29 is accepted.
        NaiveDate::from_ymd_opt(2024, month, day).map(|_| Self { month, day })
    }

    fn in_year(self, year: i32) -> Option<NaiveDate> {
        let day = |day| NaiveDate::from_ymd_opt(year, self.month, day);
        day(self.day).or_else(|| day(28))
    }
}

impl Calendar {
    pub(super) fn new(as_of: NaiveDate, year_end: Option<YearEnd>) -> Self {
        Self { as_of, year_end, excluded: BTreeSet::new(), uncertain: BTreeSet::new() }
    }

    /// Returns whether a period had ended, or may have ended, by the cut-off date. Records the period if it is excluded
    /// or uncertain.
    pub(super) fn admit(&mut self, period: Period) -> bool {
        let (Some(first), Some(last)) = self.possible_ends(period) else { return true };
        if first > self.as_of {
            self.excluded.insert(period);
            return false;
        }
        if last > self.as_of {
            self.uncertain.insert(period);
        }
        true
    }

    /// Returns the earliest and latest possible last day of a period.
    fn possible_ends(&self, period: Period) -> (Option<NaiveDate>, Option<NaiveDate>) {
        let quarters_left = period.quarter.map_or(0, |it| 4 - u32::from(it.get()));
        let earlier = |day: NaiveDate| {
            let is_last = (day + chrono::Days::new(1)).day() == 1;
            let moved = day.checked_sub_months(Months::new(3 * quarters_left))?;
            // If the year ends on the last day of a month, its quarters do too: three months before June 30 is March
            // 31.
            let next = moved.with_day(1)?.checked_add_months(Months::new(1))?;
            if is_last { next.pred_opt() } else { Some(moved) }
        };
        let day = |month, day| NaiveDate::from_ymd_opt(period.year, month, day);
        let (first, last) = match self.year_end {
            Some(it) => (it.in_year(period.year), it.in_year(period.year)),
            None => (day(1, 1), day(12, 31)),
        };
        (first.and_then(earlier), last.and_then(earlier))
    }

    /// Returns warnings about excluded and uncertain periods.
    pub(super) fn warnings(&self) -> Vec<String> {
        let listed = |all: &BTreeSet<Period>| {
            all.iter().map(Period::to_string).collect::<Vec<_>>().join(", ")
        };
        let as_of = self.as_of;
        let mut warnings = Vec::new();
        if !self.excluded.is_empty() {
            let periods = listed(&self.excluded);
            warnings.push(format!("periods ignored because they end after {as_of}: {periods}"));
        }
        if !self.uncertain.is_empty() {
            let periods = listed(&self.uncertain);
            warnings.push(format!(
                "periods that may end after {as_of}: {periods}; state the end of the fiscal year as `fiscal_year_end` in \
                 a .json file, for example \"01-31\""
            ));
        }
        warnings
    }
}
