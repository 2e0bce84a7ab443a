//! Where a number comes from.

use std::fmt;

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

/// A number and where it comes from. What it counts is said by its [`Item`](super::Item).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// The number, in whole dollars or shares.
    pub value: i64,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a number or a remark comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Origin {
    /// Invented; it says nothing about any real company.
    Synthetic,
    /// Stated in a filing.
    Filed {
        /// The XBRL tag.
        tag: String,
        /// The filing's form, like `10-K`.
        form: String,
        /// The day it was filed.
        filed: NaiveDate,
        /// The filing's accession number.
        accession: String,
        /// What an earlier filing had said instead.
        restated_from: Option<i64>,
    },
    /// Computed from other numbers of the same tag.
    Derived {
        /// The XBRL tag.
        tag: String,
        /// How, like `FY - 9M`.
        how: String,
        /// The day the last of them was filed.
        filed: NaiveDate,
        /// The accession numbers of their filings.
        accessions: Vec<String>,
    },
    /// Read from a file of the user's.
    File {
        /// The file's name.
        name: String,
        /// The line from 1, or the way to a value in JSON.
        place: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Synthetic => f.write_str("synthetic"),
            Self::Filed { tag, form, filed, accession, restated_from } => {
                write!(f, "{tag}, {form} filed {filed}, {accession}")?;
                match restated_from {
                    Some(before) => write!(f, ", restated from {before}"),
                    None => Ok(()),
                }
            }
            Self::Derived { tag, how, filed, accessions } => {
                write!(f, "{tag}, derived as {how} by {filed}, {}", accessions.join(" and "))
            }
            Self::File { name, place } => write!(f, "{name}:{place}"),
        }
    }
}
