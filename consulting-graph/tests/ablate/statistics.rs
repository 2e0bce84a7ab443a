//! Intervals, rank correlation and overlap.

use std::collections::BTreeSet;

use consulting_graph::ablate::{jaccard, kendall_tau, mean_interval};

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
    // Two of six pairs are tied in one list: (5 - 0) / sqrt(6 * 5) would be without the tie of the other list.
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
        let values: Vec<f64> = (0..40).map(|_| numbers.next()).collect();
        covered += u32::from(mean_interval(&values, 0.95).unwrap().contains(0.5));
    }
    // 190 are expected, with a standard deviation of 3.
    assert!((178..=199).contains(&covered), "{covered} of {rounds}");
    assert_eq!(mean_interval(&[], 0.95), None);
}
