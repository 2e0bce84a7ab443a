//! Which periods had ended on the day of the knowledge.

use std::collections::BTreeSet;

use chrono::{Datelike, Months, NaiveDate};

use super::Period;

/// When periods end, and which of them were asked about.
///
/// A fiscal year is named after the calendar year in which it ends. Where no file says on which day that is, a period
/// is left out only if it ends too late in any case.
#[derive(Debug)]
pub(super) struct Calendar {
    as_of: NaiveDate,
    year_end: Option<YearEnd>,
    left_out: BTreeSet<Period>,
    doubtful: BTreeSet<Period>,
}

/// The last day of a fiscal year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct YearEnd {
    month: u32,
    day: u32,
}

impl YearEnd {
    /// Reads `01-31`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (month, day) = text.trim().split_once('-')?;
        let (month, day) = (month.parse().ok()?, day.parse().ok()?);
        // Every day of a leap year is a day.
        NaiveDate::from_ymd_opt(2024, month, day).map(|_| Self { month, day })
    }

    fn of(self, year: i32) -> Option<NaiveDate> {
        let day = |day| NaiveDate::from_ymd_opt(year, self.month, day);
        day(self.day).or_else(|| day(28))
    }
}

impl Calendar {
    pub(super) fn new(as_of: NaiveDate, year_end: Option<YearEnd>) -> Self {
        Self { as_of, year_end, left_out: BTreeSet::new(), doubtful: BTreeSet::new() }
    }

    /// Whether a period is to be read: it had ended, or may have.
    pub(super) fn takes(&mut self, period: Period) -> bool {
        let (Some(first), Some(last)) = self.ends(period) else { return true };
        if first > self.as_of {
            self.left_out.insert(period);
            return false;
        }
        if last > self.as_of {
            self.doubtful.insert(period);
        }
        true
    }

    /// The first and the last day on which a period may end.
    fn ends(&self, period: Period) -> (Option<NaiveDate>, Option<NaiveDate>) {
        let quarters_left = period.quarter.map_or(0, |it| 4 - u32::from(it.get()));
        let earlier = |day: NaiveDate| {
            let is_last = (day + chrono::Days::new(1)).day() == 1;
            let moved = day.checked_sub_months(Months::new(3 * quarters_left))?;
            // The quarter before one that ends on June 30 ends on March 31.
            let next = moved.with_day(1)?.checked_add_months(Months::new(1))?;
            if is_last { next.pred_opt() } else { Some(moved) }
        };
        let day = |month, day| NaiveDate::from_ymd_opt(period.year, month, day);
        let (first, last) = match self.year_end {
            Some(it) => (it.of(period.year), it.of(period.year)),
            None => (day(1, 1), day(12, 31)),
        };
        (first.and_then(earlier), last.and_then(earlier))
    }

    /// What a reader must know about the periods that were asked about.
    pub(super) fn warnings(&self) -> Vec<String> {
        let listed = |all: &BTreeSet<Period>| {
            all.iter().map(Period::to_string).collect::<Vec<_>>().join(", ")
        };
        let as_of = self.as_of;
        let mut warnings = Vec::new();
        if !self.left_out.is_empty() {
            let periods = listed(&self.left_out);
            warnings.push(format!("left out, because it ends after {as_of}: {periods}"));
        }
        if !self.doubtful.is_empty() {
            let periods = listed(&self.doubtful);
            warnings.push(format!(
                "it is not known whether this had ended by {as_of}: {periods}; say when the fiscal year ends with \
                 `fiscal_year_end` in a .json file, like \"01-31\""
            ));
        }
        warnings
    }
}
