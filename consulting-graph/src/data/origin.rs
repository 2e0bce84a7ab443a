//! Numbers with their origin.

use std::fmt;

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

/// A number with its origin. Its [`Item`](super::Item) determines the unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// The value, in whole dollars or shares.
    pub value: i64,
    /// Where it comes from.
    pub origin: Origin,
}

/// Origin of a number or a note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Origin {
    /// Generated; says nothing about any real company.
    Synthetic,
    /// Stated in a filing.
    Filed {
        /// The XBRL tag.
        tag: String,
        /// The type of filing, such as `10-K`.
        form: String,
        /// The filing date.
        filed: NaiveDate,
        /// The filing's accession number.
        accession: String,
        /// The value stated by an earlier filing, if it was different.
        restated_from: Option<i64>,
    },
    /// Computed from other values of the same tag.
    Derived {
        /// The XBRL tag.
        tag: String,
        /// The formula, such as `FY - 9M`.
        how: String,
        /// The date of the latest filing involved.
        filed: NaiveDate,
        /// The accession numbers of the filings involved.
        accessions: Vec<String>,
    },
    /// Read from a file supplied by the user.
    File {
        /// The file's name.
        name: String,
        /// The line, counted from 1, or the path to a value in JSON.
        #[serde(rename = "place")]
        location: String,
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
            Self::File { name, location } => write!(f, "{name}:{location}"),
        }
    }
}
