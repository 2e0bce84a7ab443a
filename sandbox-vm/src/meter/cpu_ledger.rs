//! Adds up the CPU time of processes, including those that have ended.

use std::{collections::HashMap, iter, mem, time::Duration};

/// Process id and start time. Ids are reused.
type ProcessKey = (i32, u64);

/// CPU time of all processes that samples have shown so far, and of the children that these have waited for.
///
/// The kernel adds the time of a process that has ended to its parent, but only if the parent waits for it. The time of
/// a process whose parent ignores `SIGCHLD` is lost, together with the time of the children that it has waited for.
/// Without this ledger, a program could use any amount of CPU time in short-lived processes.
#[derive(Debug, Default)]
pub(crate) struct CpuLedger {
    /// The processes in the last sample.
    running: HashMap<ProcessKey, Entry>,
    /// CPU time of ended processes, as measured by the last samples that contained them.
    ended: Duration,
}

/// CPU time of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessTime {
    /// Id of the parent.
    pub(super) parent: i32,
    /// Time of the process itself, without its children.
    pub(super) own: Duration,
    /// Time of the children that the process has reaped, including the time of the children that these have reaped.
    pub(super) children: Duration,
}

#[derive(Debug)]
struct Entry {
    time: ProcessTime,
    /// Time of ended descendants that the ledger has already counted, but that `time.children` does not contain yet. If
    /// the process waits for these descendants, the kernel adds their time to `time.children`, and it must not be
    /// counted twice.
    counted: Duration,
}

impl CpuLedger {
    /// Records the processes that are running now.
    pub(super) fn record(&mut self, running: impl Iterator<Item = (ProcessKey, ProcessTime)>) {
        let entry = |time| Entry { time, counted: Duration::ZERO };
        let mut running: HashMap<_, _> = running.map(|(key, time)| (key, entry(time))).collect();
        let before = mem::take(&mut self.running);
        let keys: HashMap<i32, ProcessKey> = before.keys().map(|it| (it.0, *it)).collect();
        let parent = |it: &ProcessKey| keys.get(&before.get(it)?.time.parent).copied();
        for (key, Entry { time, counted }) in &before {
            if let Some(same) = running.get_mut(key) {
                same.counted += *counted;
                continue;
            }
            self.ended += time.own;
            // The number of steps is limited, because the processes of a sample are not read at the same moment.
            let mut ancestors = iter::successors(parent(key), parent).take(before.len());
            let ancestor = ancestors.find(|it| running.contains_key(it));
            if let Some(ancestor) = ancestor.and_then(|it| running.get_mut(&it)) {
                ancestor.counted += time.own + time.children + *counted;
            }
        }
        for (key, Entry { time, counted }) in &mut running {
            let earlier = before.get(key).map_or(Duration::ZERO, |it| it.time.children);
            let growth = time.children.saturating_sub(earlier);
            self.ended += growth.saturating_sub(*counted);
            *counted = counted.saturating_sub(growth);
        }
        self.running = running;
    }

    /// Returns the time of all processes together. It is a lower bound, because a process can start and end between two
    /// samples.
    pub(crate) fn total(&self) -> Duration {
        self.ended + self.running.values().map(|it| it.time.own).sum::<Duration>()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{CpuLedger, ProcessKey, ProcessTime};

    /// A process: its key, its parent, and its own time and that of its children in milliseconds.
    type Sampled = (ProcessKey, i32, u64, u64);

    /// Records the samples and returns the total in milliseconds after each of them.
    fn totals<const N: usize>(samples: [&[Sampled]; N]) -> [u128; N] {
        let mut ledger = CpuLedger::default();
        samples.map(|sample| {
            ledger.record(sample.iter().map(|&(key, parent, own, children)| {
                let [own, children] = [own, children].map(Duration::from_millis);
                (key, ProcessTime { parent, own, children })
            }));
            ledger.total().as_millis()
        })
    }

    #[test]
    fn total_includes_ended_processes() {
        let totals = totals([
            &[((1, 0), 0, 10, 0), ((2, 5), 1, 30, 0)],
            &[((1, 0), 0, 20, 0), ((2, 5), 1, 40, 0)],
            &[((1, 0), 0, 20, 0)],
            // Another process has the same id.
            &[((1, 0), 0, 20, 0), ((2, 9), 1, 7, 0)],
            &[],
        ]);
        assert_eq!(totals, [40, 60, 60, 67, 67]);
    }

    #[test]
    fn total_includes_children_that_no_sample_shows() {
        // Process 2 waits for its children, and process 1 does not wait for process 2.
        let totals = totals([
            &[((1, 0), 0, 0, 0), ((2, 5), 1, 10, 50)],
            &[((1, 0), 0, 0, 0), ((2, 5), 1, 10, 80)],
            &[((1, 0), 0, 0, 0)],
        ]);
        assert_eq!(totals, [60, 90, 90]);
    }

    #[test]
    fn the_time_of_a_child_is_counted_once_when_its_parent_waits() {
        let totals = totals([
            &[((1, 0), 0, 0, 0), ((2, 5), 1, 30, 20)],
            // The sample shows process 1 as it was before it waited.
            &[((1, 0), 0, 0, 0)],
            &[((1, 0), 0, 0, 55)],
            &[((1, 0), 0, 0, 65)],
        ]);
        assert_eq!(totals, [50, 50, 55, 65]);
    }

    #[test]
    fn the_time_of_a_grandchild_is_counted_once_when_both_parents_wait() {
        let totals = totals([
            &[((1, 0), 0, 5, 0), ((2, 5), 1, 10, 0), ((3, 6), 2, 30, 0)],
            &[((1, 0), 0, 5, 42)],
        ]);
        assert_eq!(totals, [45, 47]);
    }
}
