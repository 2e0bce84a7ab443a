//! Statistics of an ablation: bootstrap intervals, rank correlation and overlap of sets.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::data::SeededRng;

/// Number of bootstrap samples. Enough for the limits of an interval of level 0.996.
const BOOTSTRAP_SAMPLES: usize = 10_000;

/// A mean with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// Returns whether the interval contains a value.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// Returns the mean of the values with its percentile bootstrap interval of this level, such as 0.95. The random numbers
/// have a fixed seed, so the result is reproducible. Returns `None` if there are no values.
///
/// For a paired comparison, pass the differences of the pairs.
pub fn mean_interval(values: &[f64], level: f64) -> Option<Interval> {
    let mean = mean(values)?;
    let mut rng = SeededRng::from_text("ablation bootstrap");
    let n = values.len();
    let resample = |_| {
        let drawn = (0..n).map(|_| values[(rng.next_u64() % n as u64) as usize]);
        drawn.sum::<f64>() / n as f64
    };
    let mut means: Vec<f64> = (0..BOOTSTRAP_SAMPLES).map(resample).collect();
    means.sort_by(f64::total_cmp);
    let quantile = |share: f64| {
        let index = (share * (BOOTSTRAP_SAMPLES - 1) as f64).round() as usize;
        means[index.min(BOOTSTRAP_SAMPLES - 1)]
    };
    let tail = (1.0 - level) / 2.0;
    Some(Interval { mean, low: quantile(tail), high: quantile(1.0 - tail) })
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
