//! The permutation test and the decision rule, intervals, rank correlation and overlap.

use std::collections::BTreeSet;

use crate::ablate::{
    Arm, CONTRASTS, Decision, MIN_PAIRS, jaccard, kendall_tau, mean_interval, sign_flip_p_value,
};

/// A generator of reproducible numbers from 0 to 1 (xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[test]
fn kendalls_tau_is_corrected_for_ties() {
    let close = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 1e-9, "{a:?} {b}");
    close(kendall_tau(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 3.0, 4.0]), 1.0);
    close(kendall_tau(&[1.0, 2.0, 3.0, 4.0], &[4.0, 3.0, 2.0, 1.0]), -1.0);
    // One of the six pairs is tied in the second list, and the other five have equal orders: 5 / sqrt(6 × 5).
    close(kendall_tau(&[1.0, 2.0, 3.0, 4.0], &[1.0, 1.0, 2.0, 3.0]), 5.0 / 30_f64.sqrt());
    close(kendall_tau(&[1.0, 2.0, 3.0, 4.0], &[0.0, 0.0, 1.0, 1.0]), 4.0 / 24_f64.sqrt());
    assert_eq!(kendall_tau(&[1.0, 2.0], &[5.0, 5.0]), None);
    assert_eq!(kendall_tau(&[], &[]), None);
}

#[test]
fn the_jaccard_index_is_the_share_of_common_elements() {
    let set = |it: &[u8]| it.iter().copied().collect::<BTreeSet<u8>>();
    assert!((jaccard(&set(&[1, 2, 3]), &set(&[2, 3, 4])) - 0.5).abs() < 1e-9);
    assert!((jaccard(&set(&[1, 2, 3]), &set(&[1, 2, 3])) - 1.0).abs() < 1e-9);
    assert!(jaccard(&set(&[1]), &set(&[2])).abs() < 1e-9);
}

#[test]
fn intervals_contain_the_true_mean_as_often_as_their_level_says() {
    let mut numbers = Numbers(42);
    let (mut covered, rounds) = (0, 200);
    for _ in 0..rounds {
        let values: Vec<i64> = (0..40).map(|_| (numbers.next() * 1001.0) as i64).collect();
        covered += u32::from(mean_interval(&values, 1000, 0.95).unwrap().contains(0.5));
    }
    // 190 are expected, with a standard deviation of 3.
    assert!((178..=199).contains(&covered), "{covered} of {rounds}");
    assert_eq!(mean_interval(&[], 1, 0.95), None);
}

#[test]
fn intervals_are_computed_without_rounding_errors() {
    // In floating point, the sum of these thirds is not zero.
    let interval = mean_interval(&[1, 1, 1, 1, 1, 1, -2, -2, -2], 3, 0.95).unwrap();
    assert_eq!(interval.mean.to_bits(), 0.0_f64.to_bits());
    assert!(mean_interval(&[0; 12], 3, 0.95).unwrap().contains(0.1 + 0.2 - 0.3));
}

#[test]
fn p_values_equal_those_of_an_enumeration_of_all_signs() {
    let enumerated = |differences: &[i64]| {
        let sum = |signs: u32| -> i64 {
            let sign = |at: usize| if (signs >> at) & 1 == 0 { 1 } else { -1 };
            differences.iter().enumerate().map(|(at, it)| sign(at) * it).sum()
        };
        let all = 1_u32 << differences.len();
        let extreme = (0..all).filter(|it| sum(*it).abs() >= sum(0).abs()).count();
        extreme as f64 / f64::from(all)
    };
    let mut numbers = Numbers(7);
    for length in 0..11 {
        let differences: Vec<i64> =
            (0..length).map(|_| (numbers.next() * 9.0) as i64 - 3).collect();
        let (p, expected) = (sign_flip_p_value(&differences), enumerated(&differences));
        assert!((p - expected).abs() < 1e-12, "{differences:?}: {p} {expected}");
    }
    assert!((sign_flip_p_value(&[0, 0, 0]) - 1.0).abs() < 1e-12);
    // The differences are equal, so only the two extreme sums are as far from zero as the observed one.
    assert!((sign_flip_p_value(&[2; 40]) / 2_f64.powi(-39) - 1.0).abs() < 1e-9);
}

#[test]
fn decisions_follow_the_p_value_and_the_sign() {
    let mut differences = vec![0; MIN_PAIRS - 10];
    differences.extend([1; 10]);
    // The p-value is 2 / 2^10, which is between 0.05 / 26 and 0.05 / 13.
    assert_eq!(Decision::new(&differences, 13), Decision::Better);
    assert_eq!(Decision::new(&differences, 26), Decision::NoEffect);
    differences.iter_mut().for_each(|it| *it = -*it);
    assert_eq!(Decision::new(&differences, 13), Decision::Worse);
    assert_eq!(Decision::new(&differences[1..], 13), Decision::TooFewPairs);
}

#[test]
fn at_most_one_of_twenty_ablations_finds_an_effect_between_equal_arms() {
    let (mut with_effect, mut effects, ablations) = (0, 0, 2000);
    for (seed, is_correct) in [(1_u64, 0.5), (2, 0.8)] {
        let mut numbers = Numbers(seed);
        for _ in 0..ablations / 2 {
            // The number of correct verdicts about the two moves of each pair, in each arm.
            let verdict = |numbers: &mut Numbers| i64::from(numbers.next() < is_correct);
            let mut arm = || -> [i64; MIN_PAIRS] {
                std::array::from_fn(|_| verdict(&mut numbers) + verdict(&mut numbers))
            };
            let arms = Arm::ALL.map(|it| (it, arm()));
            let of = |arm: Arm| arms.iter().find(|it| it.0 == arm).unwrap().1;
            let found = CONTRASTS.iter().filter(|(arm, reference, _)| {
                let (a, b) = (of(*arm), of(*reference));
                let differences: Vec<i64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
                effects += usize::from(Decision::new(&differences, 1) != Decision::NoEffect);
                Decision::new(&differences, CONTRASTS.len()) != Decision::NoEffect
            });
            with_effect += usize::from(found.count() > 0);
        }
    }
    assert!(with_effect <= ablations / 20, "{with_effect} of {ablations}");
    // The p-values of so few pairs are discrete, so a single comparison has an effect less often than once in 20.
    let comparisons = ablations * CONTRASTS.len();
    assert!(
        (comparisons / 100..=comparisons / 20).contains(&effects),
        "{effects} of {comparisons}"
    );
}
