//! Predicts which peers are not worth running at a size.

use std::time::Duration;

use super::{
    cell::{Cell, Outcome},
    workloads::Workload,
};

/// Returns the outcome of a peer that does not have to run at a size, because it failed at a smaller one or would take
/// longer than `longest`.
pub(super) fn outcome_without_run(
    peer: &str,
    workload: &Workload,
    size: usize,
    cells: &[Cell],
    longest: Duration,
) -> Option<Outcome> {
    let earlier = || cells.iter().rev().filter(|it| it.peer == peer);
    if let known @ (Outcome::Absent(_) | Outcome::Wrong(_)) = &earlier().next()?.outcome {
        return Some(known.clone());
    }
    let mut measured = earlier().filter_map(|it| {
        let seconds = it.cost()?.median * workload.units(it.size) as f64 / 1e9;
        Some((it.size as f64, seconds))
    });
    let (last, seconds) = measured.next()?;
    // Assume that the time keeps growing as it did between the last two sizes, with an exponent from 1 (linear) to 2.5.
    let exponent = match measured.next() {
        Some((before, its)) => ((seconds / its).ln() / (last / before).ln()).clamp(1.0, 2.5),
        None => 1.0,
    };
    let expected = seconds * (size as f64 / last).powf(exponent);
    (expected > longest.as_secs_f64()).then_some(Outcome::TooSlow(expected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cell::{measured, sample_cells};

    #[track_caller]
    fn check(cells: &[Cell], peer: &str, size: usize, expect: Option<&Outcome>) {
        let workload = Workload::named("loop").expect("the workload exists");
        let got = outcome_without_run(peer, workload, size, cells, Duration::from_secs(6));
        assert_eq!(got.as_ref(), expect);
    }

    /// Returns the cells of a peer that takes 0.1 s at a size of 1,000 and 1 s at 10,000.
    fn slow_cells() -> Vec<Cell> {
        let cell = Cell { outcome: measured(1e5, 3), ..sample_cells()[0].clone() };
        vec![cell.clone(), Cell { size: 10_000, ..cell }]
    }

    #[test]
    fn a_failed_peer_is_not_run_at_larger_sizes() {
        let wrong = Outcome::Wrong("wrong answer: 7".to_owned());
        check(&sample_cells(), "slow", 100_000, Some(&wrong));
    }

    #[test]
    fn a_peer_is_run_if_it_is_fast_enough() {
        check(&slow_cells(), "engine", 50_000, None);
        check(&slow_cells(), "by hand", 50_000, None);
    }

    #[test]
    fn the_expected_time_grows_with_every_size() {
        let mut cells = slow_cells();
        check(&cells, "engine", 100_000, Some(&Outcome::TooSlow(10.0)));
        cells.push(Cell { size: 100_000, outcome: Outcome::TooSlow(10.0), ..cells[0].clone() });
        check(&cells, "engine", 1_000_000, Some(&Outcome::TooSlow(100.0)));
    }
}
