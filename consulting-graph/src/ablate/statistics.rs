//! Statistics of an ablation: a permutation test, bootstrap intervals, rank correlation and overlap of sets.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::data::SeededRng;

/// Number of bootstrap samples. Enough for the limits of an interval of level 0.996.
const BOOTSTRAP_SAMPLES: usize = 10_000;

/// Tolerance of [`Interval::contains`].
const ROUNDING_ERROR: f64 = 1e-9;

/// A mean with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// Returns whether the interval contains a value. Tolerates rounding errors of the value.
    pub fn contains(&self, value: f64) -> bool {
        (self.low - ROUNDING_ERROR..=self.high + ROUNDING_ERROR).contains(&value)
    }
}

/// Returns the two-sided p-value of the sign-flip permutation test of paired differences: the probability that the sum
/// is at least as far from zero as the observed one if each difference has a random sign. The test is exact for any
/// number of pairs. It uses no random numbers: since the differences are integers, the distribution of the sum is
/// computed difference by difference.
pub fn sign_flip_p_value(differences: &[i64]) -> f64 {
    let observed = differences.iter().sum::<i64>().unsigned_abs() as usize;
    let sizes: Vec<usize> = differences.iter().map(|it| it.unsigned_abs() as usize).collect();
    let total: usize = sizes.iter().sum();
    // The probability of each possible sum `positive` of the differences with a positive sign. The sum of all
    // differences is then 2 × `positive` - `total`.
    let mut probabilities = vec![0.0; total + 1];
    probabilities[0] = 1.0;
    let mut highest = 0;
    for size in sizes.into_iter().filter(|it| *it > 0) {
        highest += size;
        for positive in (0..=highest).rev() {
            let before = if positive >= size { probabilities[positive - size] } else { 0.0 };
            probabilities[positive] = f64::midpoint(probabilities[positive], before);
        }
    }
    let is_extreme = |positive: usize| (2 * positive).abs_diff(total) >= observed;
    let extreme = probabilities.iter().enumerate().filter(|(it, _)| is_extreme(*it));
    extreme.map(|(_, it)| it).sum::<f64>().min(1.0)
}

/// Returns the mean of `counts / unit` with its percentile bootstrap interval of this level, such as 0.95. The random
/// numbers have a fixed seed, so the result is reproducible. Sums are computed in integers, so that equal means are
/// equal without rounding errors. Returns `None` if there are no counts.
///
/// For a paired comparison, pass the differences of the pairs.
pub fn mean_interval(counts: &[i64], unit: u32, level: f64) -> Option<Interval> {
    if counts.is_empty() || unit == 0 {
        return None;
    }
    let mut rng = SeededRng::from_text("ablation bootstrap");
    let n = counts.len();
    let resample = |_| (0..n).map(|_| counts[(rng.next_u64() % n as u64) as usize]).sum::<i64>();
    let mut sums: Vec<i64> = (0..BOOTSTRAP_SAMPLES).map(resample).collect();
    sums.sort_unstable();
    let mean = |sum: i64| sum as f64 / (n as f64 * f64::from(unit));
    let quantile = |share: f64| {
        let index = (share * (BOOTSTRAP_SAMPLES - 1) as f64).round() as usize;
        mean(sums[index.min(BOOTSTRAP_SAMPLES - 1)])
    };
    let tail = (1.0 - level) / 2.0;
    let (low, high) = (quantile(tail), quantile(1.0 - tail));
    Some(Interval { mean: mean(counts.iter().sum()), low, high })
}

/// Returns the mean, or `None` if there are no values.
pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns Kendall's tau-b of two equally long lists: from -1 for opposite orders to 1 for equal orders, corrected for
/// ties. Returns `None` if one of the lists has only ties.
pub fn kendall_tau(a: &[f64], b: &[f64]) -> Option<f64> {
    let sign = |x: f64, y: f64| if x == y { 0 } else { (x - y).signum() as i64 };
    let (mut sum, mut in_a, mut in_b) = (0_i64, 0_i64, 0_i64);
    for (at, (x, y)) in a.iter().zip(b).enumerate() {
        for (x2, y2) in a.iter().zip(b).take(at) {
            let (signs_a, signs_b) = (sign(*x, *x2), sign(*y, *y2));
            sum += signs_a * signs_b;
            in_a += signs_a.abs();
            in_b += signs_b.abs();
        }
    }
    (in_a > 0 && in_b > 0).then(|| sum as f64 / (in_a as f64 * in_b as f64).sqrt())
}

/// Returns the Jaccard index of two sets: the size of the intersection divided by that of the union.
pub fn jaccard<T: Ord>(a: &BTreeSet<T>, b: &BTreeSet<T>) -> f64 {
    let union = a.union(b).count();
    if union == 0 { 1.0 } else { a.intersection(b).count() as f64 / union as f64 }
}

/// Returns the mean of a function over all pairs of elements. Ignores pairs without a value.
pub(super) fn mean_over_pairs<T>(all: &[T], f: impl Fn(&T, &T) -> Option<f64>) -> Option<f64> {
    let pairs = all.iter().enumerate().flat_map(|(at, a)| all[..at].iter().map(move |b| (b, a)));
    mean(&pairs.filter_map(|(a, b)| f(a, b)).collect::<Vec<f64>>())
}
