//! Measuring: rounds of runs, each side in turn, and what they come to.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// One run of a workload: it gives the time of the part that counts.
pub type Run = Box<dyn FnMut() -> Duration>;

/// A round shorter than this is made of several runs.
const MIN_ROUND: Duration = Duration::from_millis(10);

/// The most runs a round is made of.
const MAX_RUNS_PER_ROUND: u128 = 1_000;

/// One side of a comparison, with what was measured of it.
pub struct Side {
    run: Run,
    steps: usize,
    runs_per_round: u32,
    samples: Samples,
}

impl std::fmt::Debug for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Side").field("samples", &self.samples).finish_non_exhaustive()
    }
}

impl Side {
    /// Warms the side up, and finds how many of its runs make a round.
    pub fn warmed_up(mut run: Run, steps: usize) -> Self {
        let once = run().min(run()).as_nanos().max(1);
        let runs = (MIN_ROUND.as_nanos() / once).clamp(1, MAX_RUNS_PER_ROUND);
        Self { run, steps, runs_per_round: runs as u32, samples: Samples::default() }
    }

    /// Measures one round.
    pub fn round(&mut self) {
        let time: Duration = (0..self.runs_per_round).map(|_| (self.run)()).sum();
        self.samples.add(time / self.runs_per_round, self.steps);
    }

    /// What the rounds came to.
    pub fn cost(&self) -> Option<Cost> {
        self.samples.cost()
    }
}

/// The nanoseconds a step took, round by round.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds a run of so many steps.
    pub fn add(&mut self, time: Duration, steps: usize) {
        self.0.push(time.as_secs_f64() * 1e9 / steps.max(1) as f64);
    }

    /// What the samples come to; `None` without any.
    pub fn cost(&self) -> Option<Cost> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let min = *sorted.first()?;
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
            _ => sorted[middle],
        };
        Some(Cost { median, min })
    }
}

/// The cost of a step, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// The median of the rounds.
    pub median: f64,
    /// The quickest round: what the machine can do when nobody else uses it.
    pub min: f64,
}

/// A clock for a part of a run, which the run itself starts and stops. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Stopwatch {
    // Locked twice a run, by whoever runs the first and the last step.
    shared: Arc<Mutex<Interval>>,
}

#[derive(Debug, Default)]
struct Interval {
    start: Option<Instant>,
    time: Option<Duration>,
}

impl Stopwatch {
    /// Starts the clock anew.
    pub fn start(&self) {
        let interval = Interval { start: Some(Instant::now()), time: None };
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = interval;
    }

    /// Stops the clock.
    pub fn stop(&self) {
        let now = Instant::now();
        let mut interval = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        interval.time = interval.start.map(|it| now - it);
    }

    /// The time between the last start and the stop after it.
    pub fn time(&self) -> Option<Duration> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(micros: &[u64], expect: Option<(f64, f64)>) {
        let mut samples = Samples::default();
        for time in micros {
            samples.add(Duration::from_micros(*time), 10);
        }
        assert_eq!(samples.cost(), expect.map(|(median, min)| Cost { median, min }));
    }

    #[test]
    fn costs_are_medians_a_step() {
        check(&[], None);
        check(&[7], Some((700.0, 700.0)));
        check(&[9, 1, 4], Some((400.0, 100.0)));
        check(&[9, 1, 4, 6], Some((500.0, 100.0)));
    }

    #[test]
    fn a_stopwatch_needs_both_ends() {
        let watch = Stopwatch::default();
        watch.stop();
        assert_eq!(watch.time(), None);
        watch.start();
        assert_eq!(watch.time(), None);
        let clone = watch.clone();
        clone.stop();
        assert!(watch.time().is_some());
    }
}
