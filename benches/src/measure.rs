//! Measures runs in rounds and computes their cost.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::compare::cost::median;

/// Runs a workload once and returns the duration of the measured part.
pub type Run = Box<dyn FnMut() -> Duration>;

/// Minimum duration of a round. Shorter runs are repeated within the round.
const MIN_ROUND: Duration = Duration::from_millis(10);

/// Maximum number of runs per round.
const MAX_RUNS_PER_ROUND: u128 = 1_000;

/// One of the implementations that are compared, with its samples.
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
    /// Runs the implementation twice to warm up, and determines how many runs a round needs.
    pub fn warmed_up(mut run: Run, steps: usize) -> Self {
        let once = run().min(run()).as_nanos().max(1);
        let runs = (MIN_ROUND.as_nanos() / once).clamp(1, MAX_RUNS_PER_ROUND);
        Self { run, steps, runs_per_round: runs as u32, samples: Samples::default() }
    }

    pub fn round(&mut self) {
        let time: Duration = (0..self.runs_per_round).map(|_| (self.run)()).sum();
        self.samples.add(time / self.runs_per_round, self.steps);
    }

    /// Returns the cost over all rounds.
    pub fn cost(&self) -> Option<Cost> {
        self.samples.cost()
    }
}

/// Samples in nanoseconds per step, one per round.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds a sample for a run that took `time` for `steps` steps.
    pub fn add(&mut self, time: Duration, steps: usize) {
        self.0.push(time.as_secs_f64() * 1e9 / steps.max(1) as f64);
    }

    /// Returns the cost, or `None` if there are no samples.
    pub fn cost(&self) -> Option<Cost> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        Some(Cost { min: *sorted.first()?, median: median(&sorted) })
    }
}

/// The cost of one step in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Median over all rounds.
    pub median: f64,
    /// Cost in the fastest round, which is close to the cost on an otherwise idle machine.
    pub min: f64,
}

/// A stopwatch that the measured run itself starts and stops. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct Stopwatch {
    // Locked only twice per run, so the mutex adds almost no cost to the measured time.
    shared: Arc<Mutex<Interval>>,
}

#[derive(Debug, Default)]
struct Interval {
    start: Option<Instant>,
    time: Option<Duration>,
}

impl Stopwatch {
    /// Starts the stopwatch and discards an earlier measurement.
    pub fn start(&self) {
        let interval = Interval { start: Some(Instant::now()), time: None };
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = interval;
    }

    pub fn stop(&self) {
        let now = Instant::now();
        let mut interval = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        interval.time = interval.start.map(|it| now - it);
    }

    /// Returns the time between the last start and the stop that followed it.
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
    fn cost_is_the_median_per_step() {
        check(&[], None);
        check(&[7], Some((700.0, 700.0)));
        check(&[9, 1, 4], Some((400.0, 100.0)));
        check(&[9, 1, 4, 6], Some((500.0, 100.0)));
    }

    #[test]
    fn stopwatch_needs_a_start_and_a_stop() {
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
