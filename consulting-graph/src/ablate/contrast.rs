//! Compares two arms, by the decision rule in the documentation of [`ablate`](super).

use serde::{Deserialize, Serialize};

use super::{
    arm::Arm,
    statistics::{Interval, mean_interval, sign_flip_p_value},
};

/// Minimum number of pairs of moves for a decision. With all [`CONTRASTS`], an effect requires at least 10
/// pairs in which the arms differ, all in the same direction.
pub const MIN_PAIRS: usize = 12;

/// Maximum probability of at least one false effect among all comparisons.
pub(super) const ERROR_RATE: f64 = 0.05;

/// The comparisons: an arm, the arm that it is compared with, and the question.
pub const CONTRASTS: [(Arm, Arm, &str); 13] = [
    (Arm::Debate1, Arm::OneCall, "Does a debate of one round help?"),
    (Arm::Debate3, Arm::OneCall, "Does a debate of three rounds help?"),
    (Arm::Debate10, Arm::OneCall, "Does a debate of ten rounds help?"),
    (Arm::Critique, Arm::OneCall, "Does one independent critique help?"),
    (Arm::SelfCritique, Arm::OneCall, "Does a critique by the judge itself help?"),
    (Arm::SelfConsistency, Arm::OneCall, "Does asking the same judge repeatedly help?"),
    (Arm::Mixed, Arm::OneCall, "Does a debate with another model as the critic help?"),
    (Arm::Placebo, Arm::OneCall, "Does the debate about another move help? (placebo)"),
    (
        Arm::Debate3,
        Arm::SelfConsistency,
        "Is a debate better than asking repeatedly, at equal tokens?",
    ),
    (Arm::Debate3, Arm::Critique, "Is a debate better than one critique?"),
    (Arm::Debate3, Arm::Placebo, "Does the content of the debate matter?"),
    (Arm::Debate10, Arm::Debate3, "Are ten rounds better than three?"),
    (Arm::Mixed, Arm::Debate3, "Is another model a better critic?"),
];

/// Comparison of two arms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContrastResult {
    pub arm: Arm,
    /// The arm that it is compared with.
    pub reference: Arm,
    pub question: String,
    /// Difference in accuracy.
    pub accuracy: Interval,
    pub sensitivity: Interval,
    pub specificity: Interval,
    /// P-value of the difference in accuracy.
    pub p_value: f64,
    pub decision: Decision,
}

/// Conclusion of a comparison about the accuracy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Better,
    Worse,
    /// The p-value of the difference is too large.
    NoEffect,
    /// There are fewer than [`MIN_PAIRS`] pairs.
    TooFewPairs,
}

impl Decision {
    /// Decides one of several comparisons by the differences of the pairs.
    pub fn new(differences: &[i64], comparisons: usize) -> Self {
        if differences.len() < MIN_PAIRS {
            Self::TooFewPairs
        } else if sign_flip_p_value(differences) > max_p_value(comparisons) {
            Self::NoEffect
        } else if differences.iter().sum::<i64>() > 0 {
            Self::Better
        } else {
            Self::Worse
        }
    }

    /// Returns the decision in words.
    pub fn label(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NoEffect => "no effect found",
            Self::TooFewPairs => "too few moves to decide",
        }
    }
}

/// Returns the largest p-value of an effect (Bonferroni).
pub(super) fn max_p_value(comparisons: usize) -> f64 {
    ERROR_RATE / comparisons.max(1) as f64
}

/// Numbers of correct verdicts in an arm, for each pair of moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PairCounts {
    /// Number of repeats in which the flawed move was judged flawed.
    pub(super) hits: Vec<i64>,
    /// Number of repeats in which the sound move was judged sound.
    pub(super) passes: Vec<i64>,
    /// Number of repeats.
    pub(super) repeats: u32,
}

impl PairCounts {
    /// Returns the intervals of sensitivity, specificity and accuracy, in this order.
    pub(super) fn intervals(&self, level: f64) -> Option<[Interval; 3]> {
        Some([
            mean_interval(&self.hits, self.repeats, level)?,
            mean_interval(&self.passes, self.repeats, level)?,
            mean_interval(&self.correct(), 2 * self.repeats, level)?,
        ])
    }

    /// Returns the number of correct verdicts about both moves of each pair.
    fn correct(&self) -> Vec<i64> {
        self.hits.iter().zip(&self.passes).map(|(a, b)| a + b).collect()
    }

    /// Returns the differences between this arm and another one.
    fn minus(&self, other: &Self) -> Self {
        let minus = |a: &[i64], b: &[i64]| a.iter().zip(b).map(|(a, b)| a - b).collect();
        Self {
            hits: minus(&self.hits, &other.hits),
            passes: minus(&self.passes, &other.passes),
            repeats: self.repeats,
        }
    }
}

/// Compares two arms, pair by pair, as one of several comparisons.
pub(super) fn contrast(
    (arm, reference, question): &(Arm, Arm, &str),
    a: &PairCounts,
    b: &PairCounts,
    comparisons: usize,
) -> Option<ContrastResult> {
    let differences = a.minus(b);
    let [sensitivity, specificity, accuracy] =
        differences.intervals(1.0 - max_p_value(comparisons))?;
    let correct = differences.correct();
    Some(ContrastResult {
        arm: *arm,
        reference: *reference,
        question: (*question).to_owned(),
        accuracy,
        sensitivity,
        specificity,
        p_value: sign_flip_p_value(&correct),
        decision: Decision::new(&correct, comparisons),
    })
}
