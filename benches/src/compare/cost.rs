//! The cost of a workload, from the samples of its rounds.

use serde::{Deserialize, Serialize};

/// The cost of one unit of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Median, fastest and slowest round, in nanoseconds.
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// CPU time in nanoseconds, median of the rounds.
    pub cpu: f64,
    /// Number of measured rounds, without the warm-up round. If it is 0, the times are those of the first run of a new
    /// process.
    pub rounds: usize,
    /// Growth of the resident memory in the first run of a new process, in bytes for the whole run.
    pub memory: u64,
    /// Bytes stored by the first run, if the workload stores something.
    pub stored: Option<u64>,
}

/// The time and the CPU time of one unit, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) time: f64,
    pub(super) cpu: f64,
}

/// Calculates the cost from the samples of the measured rounds, or from `first_run` if there are none.
pub(super) fn cost(rounds: &[Sample], first_run: Sample, memory: u64, stored: Option<u64>) -> Cost {
    let samples = if rounds.is_empty() { &[first_run] } else { rounds };
    let sorted = |value: fn(&Sample) -> f64| {
        let mut values: Vec<f64> = samples.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let (times, cpu) = (sorted(|it| it.time), sorted(|it| it.cpu));
    Cost {
        median: median(&times),
        min: times[0],
        max: times[times.len() - 1],
        cpu: median(&cpu),
        rounds: rounds.len(),
        memory,
        stored,
    }
}

/// Returns the median of sorted values. There must be at least one.
pub fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rounds: &[f64], expect: (f64, f64, f64, usize)) {
        let sample = |time| Sample { time, cpu: time * 2.0 };
        let rounds: Vec<Sample> = rounds.iter().copied().map(sample).collect();
        let got = cost(&rounds, sample(1_000.0), 8_192, None);
        assert_eq!((got.median, got.min, got.max, got.rounds), expect);
        assert_eq!((got.cpu, got.memory), (got.median * 2.0, 8_192));
    }

    #[test]
    fn median_of_an_odd_number_of_rounds_is_the_middle_one() {
        check(&[3.0, 1.0, 2.0], (2.0, 1.0, 3.0, 3));
        check(&[3.0], (3.0, 3.0, 3.0, 1));
    }

    #[test]
    fn median_of_an_even_number_of_rounds_is_the_mean_of_the_middle_ones() {
        check(&[8.0, 1.0, 2.0, 4.0], (3.0, 1.0, 8.0, 4));
    }

    #[test]
    fn time_of_the_first_run_is_used_if_there_are_no_rounds() {
        check(&[], (1_000.0, 1_000.0, 1_000.0, 0));
    }
}
