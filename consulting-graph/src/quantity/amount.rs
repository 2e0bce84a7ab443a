//! A number with its unit and precision.

use std::ops::Range;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quantity {
    /// Byte range of the number in the text.
    pub at: Range<usize>,
    /// Absolute value of the number in its unit. The sign is ignored, because a text may say *fell by 4%*.
    pub value: f64,
    /// The number as written, before applying a scale such as `m` or `billion`.
    pub written: f64,
    pub unit: Unit,
    /// Place value of the last written digit: 0.1 for `4.2`, and 100 million for `$12.3bn`.
    pub step: f64,
    /// Whether the text says that the number is approximate, as in `about 5%`.
    pub approximate: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Percent or percentage points.
    Percent,
    Money,
    /// A multiple, as in `2.5x`.
    Multiple,
    /// The text states no unit.
    Plain,
}

/// Relative tolerance for numbers that the text calls approximate.
const APPROXIMATE_TOLERANCE: f64 = 0.05;

impl Quantity {
    /// Returns whether this number from a source supports `claim`. The claim must equal this number rounded to the
    /// precision of the claim. A claim that is called approximate may differ by five percent.
    pub(crate) fn supports(&self, claim: &Self) -> bool {
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
        // The claim may omit the unit (`revenue of 12.3 billion`), or both unit and scale (`12,345` from a table of
        // millions of dollars).
        let is_bare = claim.value == claim.written;
        claim.unit == Unit::Plain
            && (near(self.value, claim.value, claim.step)
                || (is_bare && near(self.written, claim.written, claim.step)))
    }
}
