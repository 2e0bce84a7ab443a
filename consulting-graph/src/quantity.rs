//! Extracts numbers from prose, with unit and precision.
//!
//! Not every number is a claim. Years, dates, durations, list numbers, ratings out of ten, names that contain digits
//! (`F1-07`, `Q3`, `10-K`, `5G`) and bare counts up to ten cannot be confirmed by data and are skipped.

mod scan;
mod word;

use std::ops::Range;

pub use scan::{claims, parse_amount};

/// A number stated in a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantity {
    /// Its byte range in the text.
    pub at: Range<usize>,
    /// Its absolute value in its unit; the sign is ignored because a text may say *fell by 4%*.
    pub value: f64,
    /// The number as written, before applying a scale such as `m` or `billion`.
    pub written: f64,
    /// The unit.
    pub unit: Unit,
    /// The value of one unit in its last written digit.
    pub step: f64,
    /// Whether the text calls it approximate.
    pub approximate: bool,
}

/// Unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Percent or percentage points.
    Percent,
    /// An amount of money.
    Money,
    /// A multiple, as in `2.5x`.
    Multiple,
    /// No unit stated.
    Plain,
}

/// Relative tolerance for numbers that are called approximate.
const APPROXIMATE_TOLERANCE: f64 = 0.05;

impl Quantity {
    /// Returns whether this number, stated in a source, supports `claim`. The claim must equal it, rounded to the
    /// digits that the claim shows; a claim that is more precise than its source is not supported.
    ///
    /// ```
    /// use consulting_graph::quantity::claims;
    ///
    /// let source = &claims("Revenue was $12,345m.")[0];
    /// assert!(source.supports(&claims("sales of $12.3 billion")[0]));
    /// assert!(source.supports(&claims("about $12 billion")[0]));
    /// assert!(!source.supports(&claims("sales of $12.4bn")[0]));
    /// ```
    pub fn supports(&self, claim: &Self) -> bool {
        let near = |stated: f64, claimed: f64, step: f64| {
            let exact = step * 0.5;
            let allowed =
                if claim.approximate { exact.max(claimed * APPROXIMATE_TOLERANCE) } else { exact };
            // Allow for binary rounding of decimal fractions.
            (stated - claimed).abs() <= allowed + claimed * 1e-9
        };
        if self.unit == claim.unit {
            return near(self.value, claim.value, claim.step);
        }
        // The claim may omit the unit, and with it the scale: `revenue of 12.3 billion`, or `12,345` from a table.
        let is_bare = claim.value == claim.written;
        claim.unit == Unit::Plain
            && (near(self.value, claim.value, claim.step)
                || (is_bare && near(self.written, claim.written, claim.step)))
    }
}
