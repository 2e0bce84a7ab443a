//! Numbers in prose: what a text claims, with its unit and with how exactly it says it.
//!
//! Not every number is a claim. Years, dates, durations, list numbers, marks out of ten, names with digits in them
//! (`F1-07`, `Q3`, `10-K`, `5G`) and bare counts up to ten state nothing that data could confirm, and are passed over.

mod scan;
mod word;

use std::ops::Range;

pub use scan::{amount, claims};

/// A number that a text states.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantity {
    /// Where it stands, in bytes.
    pub at: Range<usize>,
    /// Its size in its unit, without sign: a text may say that something *fell by 4%*.
    pub value: f64,
    /// The number as it is written, before `m` or `billion` makes it larger.
    pub written: f64,
    /// What it counts.
    pub unit: Unit,
    /// What one more in its last written digit would add.
    pub step: f64,
    /// Whether the text calls it approximate.
    pub approximate: bool,
}

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Percent or percentage points.
    Percent,
    /// Money.
    Money,
    /// A multiple, as in `2.5x`.
    Times,
    /// Nothing that is said.
    Plain,
}

/// How far a number may be off that is called approximate.
const ROUGHLY: f64 = 0.05;

impl Quantity {
    /// Whether this number, stated in a source, supports `claim`: the claim must be what the source says, rounded to
    /// the digits that the claim shows. A claim that is more exact than its source is not supported by it.
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
            let allowed = if claim.approximate { exact.max(claimed * ROUGHLY) } else { exact };
            // What a decimal loses as a binary fraction.
            (stated - claimed).abs() <= allowed + claimed * 1e-9
        };
        if self.unit == claim.unit {
            return near(self.value, claim.value, claim.step);
        }
        // The text may leave the unit out, and with it the scale: `revenue of 12.3 billion`, or `12,345` from a table.
        let is_bare = claim.value == claim.written;
        claim.unit == Unit::Plain
            && (near(self.value, claim.value, claim.step)
                || (is_bare && near(self.written, claim.written, claim.step)))
    }
}
