//! Adds up the processor time of processes, including those that have ended.

use std::{collections::HashMap, time::Duration};

/// Processor time of all processes that samples have shown so far.
///
/// The kernel adds the time of a process that has ended to its parent, but only if the parent waits for it. The time of a
/// process whose parent ignores `SIGCHLD` is lost. Without this ledger, a program could use any amount of processor time
/// in short-lived processes.
#[derive(Debug, Default)]
pub(crate) struct CpuLedger {
    /// Time of the processes in the last sample, by process id and start time. Ids are reused.
    running: HashMap<(i32, u64), Duration>,
    /// Time of the processes that have ended, as of the last sample that showed them.
    ended: Duration,
}

impl CpuLedger {
    /// Records the processes that are running now: process id, start time, and processor time without that of children.
    pub(super) fn record(&mut self, running: impl Iterator<Item = ((i32, u64), Duration)>) {
        let running: HashMap<_, _> = running.collect();
        let ended = self.running.iter().filter(|it| !running.contains_key(it.0)).map(|it| *it.1);
        self.ended += ended.sum::<Duration>();
        self.running = running;
    }

    /// Returns the time of all processes together. It is a lower bound, because a process can start and end between two
    /// samples.
    pub(crate) fn total(&self) -> Duration {
        self.ended + self.running.values().sum::<Duration>()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::CpuLedger;

    #[test]
    fn the_time_of_ended_processes_is_kept() {
        let mut ledger = CpuLedger::default();
        let mut total = |sample: &[((i32, u64), u64)]| {
            ledger.record(sample.iter().map(|(it, millis)| (*it, Duration::from_millis(*millis))));
            ledger.total().as_millis()
        };
        assert_eq!(total(&[((1, 0), 10), ((2, 5), 30)]), 40);
        assert_eq!(total(&[((1, 0), 20), ((2, 5), 40)]), 60);
        assert_eq!(total(&[((1, 0), 20)]), 60);
        // Another process has the same id.
        assert_eq!(total(&[((1, 0), 20), ((2, 9), 7)]), 67);
        assert_eq!(total(&[]), 67);
    }
}
