//! The statements of one fiscal period.

use std::{collections::BTreeMap, fmt, num::NonZeroU8};

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use super::{Fact, Item};

/// Income statement, balance sheet and cash flow of one period, as far as they are known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// The period.
    pub period: Period,
    /// Its last day, where the source says it.
    pub end: Option<NaiveDate>,
    /// The known lines.
    pub facts: BTreeMap<Item, Fact>,
}

/// A fiscal year, or a quarter of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Period {
    /// The fiscal year, named after the calendar year in which it ends.
    pub year: i32,
    /// The quarter, from 1 to 4; none for the full year.
    pub quarter: Option<NonZeroU8>,
}

/// A text that names no period.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no period; write FY2025 for a year and Q3 FY2025 for a quarter")]
pub struct PeriodError(String);

impl Statement {
    /// The value of a line.
    pub fn get(&self, item: Item) -> Option<i64> {
        self.facts.get(&item).map(|it| it.value)
    }
}

impl Period {
    /// A full fiscal year.
    pub fn year(year: i32) -> Self {
        Self { year, quarter: None }
    }

    /// A quarter of a fiscal year; none when there is no such quarter.
    pub fn quarter(year: i32, quarter: u8) -> Option<Self> {
        let quarter = NonZeroU8::new(quarter).filter(|it| it.get() <= 4)?;
        Some(Self { year, quarter: Some(quarter) })
    }

    /// The same period one year before.
    pub fn year_before(self) -> Self {
        Self { year: self.year.saturating_sub(1), ..self }
    }

    /// Reads `FY2025`, `2025`, `Q3 FY2025`, `2025Q3`, `Q3 2025` and the like.
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
                // A digit takes one byte, and so does the letter.
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
