//! The financial statements for one fiscal period.

use std::{collections::BTreeMap, fmt, num::NonZeroU8};

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use super::{item::Item, origin::Fact};

/// The known line items of the income statement, balance sheet and cash flow statement for one period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    pub period: Period,
    /// The last day of the period, if the source states it.
    pub end: Option<NaiveDate>,
    /// The known values, by line item.
    pub facts: BTreeMap<Item, Fact>,
}

/// A fiscal year or quarter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Period {
    /// The fiscal year, named after the calendar year in which it ends.
    pub year: i32,
    /// The quarter, 1 to 4; `None` for the full year.
    pub quarter: Option<NonZeroU8>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a fiscal period; use FY2025 for a year or Q3 FY2025 for a quarter")]
pub struct PeriodError(String);

impl Statement {
    /// Returns the value of a line item, or `None` if it is not known.
    pub fn get(&self, item: Item) -> Option<i64> {
        self.facts.get(&item).map(|it| it.value)
    }
}

impl Period {
    /// Creates the period for a full fiscal year.
    pub fn year(year: i32) -> Self {
        Self { year, quarter: None }
    }

    /// Creates the period for a fiscal quarter. Returns `None` if `quarter` is not between 1 and 4.
    pub fn quarter(year: i32, quarter: u8) -> Option<Self> {
        let quarter = NonZeroU8::new(quarter).filter(|it| it.get() <= 4)?;
        Some(Self { year, quarter: Some(quarter) })
    }

    /// Returns the same period one year earlier.
    pub(crate) fn year_before(self) -> Self {
        Self { year: self.year.saturating_sub(1), ..self }
    }

    /// Parses `FY2025`, `2025`, `Q3 FY2025`, `2025Q3`, `Q3 2025` and similar forms.
    pub fn parse(text: &str) -> Result<Self, PeriodError> {
        let error = || PeriodError(text.to_owned());
        let letters: String = text
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .map(|it| it.to_ascii_uppercase())
            .collect();
        let (quarter, rest) = match letters.find('Q') {
            None => (None, letters),
            Some(at) => {
                let digit = letters[at + 1..].chars().next().ok_or_else(error)?;
                let quarter = digit.to_digit(10).ok_or_else(error)?;
                // Removes the `Q` and the digit after it. Both are ASCII, so they take one byte each.
                (Some(quarter), format!("{}{}", &letters[..at], &letters[at + 2..]))
            }
        };
        let year: i32 = rest.trim_start_matches("FY").parse().map_err(|_| error())?;
        if !(1000..=9999).contains(&year) {
            return Err(error());
        }
        match quarter {
            None => Ok(Self::year(year)),
            Some(quarter) => {
                u8::try_from(quarter).ok().and_then(|it| Self::quarter(year, it)).ok_or_else(error)
            }
        }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.quarter {
            Some(quarter) => write!(f, "Q{quarter} FY{}", self.year),
            None => write!(f, "FY{}", self.year),
        }
    }
}

impl TryFrom<String> for Period {
    type Error = PeriodError;

    fn try_from(text: String) -> Result<Self, PeriodError> {
        Self::parse(&text)
    }
}

impl From<Period> for String {
    fn from(period: Period) -> Self {
        period.to_string()
    }
}
