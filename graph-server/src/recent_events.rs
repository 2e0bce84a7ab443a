//! The latest events of an active run, kept in memory for readers that are not far behind.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use tokio::sync::watch;

use crate::run::RunEvent;

/// Maximum number of events kept in memory. Readers that fall further behind read from disk, so they neither block
/// the run nor use memory.
const MAX_EVENTS: usize = 256;
/// Maximum total size of the events kept in memory, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// The latest events of an active run.
#[derive(Debug)]
pub(crate) struct RecentEvents {
    tail: Mutex<Tail>,
    head: watch::Sender<Head>,
}

#[derive(Debug, Default)]
struct Tail {
    events: VecDeque<RunEvent>,
    bytes: usize,
}

/// Position of the newest event.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Head {
    /// Sequence number of the newest event. 0 before the first event.
    pub(crate) last_seq: u64,
    /// Whether the run has become inactive, so that no further events follow.
    pub(crate) is_closed: bool,
}

impl RecentEvents {
    pub(crate) fn new() -> Self {
        Self { tail: Mutex::default(), head: watch::Sender::new(Head::default()) }
    }

    pub(crate) fn push(&self, event: RunEvent) {
        let last = event.seq;
        {
            let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
            tail.bytes += event.data.len();
            tail.events.push_back(event);
            while tail.events.len() > MAX_EVENTS
                || (tail.bytes > MAX_BYTES && tail.events.len() > 1)
            {
                let gone = tail.events.pop_front().map_or(0, |it| it.data.len());
                tail.bytes -= gone;
            }
        }
        self.head.send_modify(|it| it.last_seq = last);
    }

    /// Marks the run as inactive. No further events follow.
    pub(crate) fn close(&self) {
        self.head.send_modify(|it| it.is_closed = true);
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Head> {
        self.head.subscribe()
    }

    /// Returns up to `limit` events after the sequence number `after`, or `None` if they have to be read from disk.
    pub(crate) fn after(&self, after: u64, limit: usize) -> Option<Vec<RunEvent>> {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let first = tail.events.front()?.seq;
        let skipped = usize::try_from(after.checked_add(1)?.checked_sub(first)?).ok()?;
        Some(tail.events.iter().skip(skipped).take(limit).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_BYTES, MAX_EVENTS, RecentEvents, RunEvent};

    fn seqs(recent: &RecentEvents, after: u64, limit: usize) -> Option<Vec<u64>> {
        Some(recent.after(after, limit)?.into_iter().map(|it| it.seq).collect())
    }

    #[test]
    fn recent_events_are_served_from_memory() {
        let recent = RecentEvents::new();
        assert_eq!(seqs(&recent, 0, 9), None, "an earlier process may have stored events");
        for seq in 1..=MAX_EVENTS as u64 + 10 {
            recent.push(RunEvent { seq, data: "{}".into() });
        }
        assert_eq!(seqs(&recent, 9, 9), None);
        assert_eq!(seqs(&recent, 10, 2), Some(vec![11, 12]));
        let last = MAX_EVENTS as u64 + 10;
        assert_eq!(seqs(&recent, last - 1, 9), Some(vec![last]));
        assert_eq!(seqs(&recent, last, 9), Some(vec![]));
        assert_eq!(seqs(&recent, u64::MAX, 9), None);
        assert_eq!(recent.watch().borrow().last_seq, last);
    }

    #[test]
    fn memory_for_events_is_bounded() {
        let recent = RecentEvents::new();
        for seq in 1..=5 {
            recent.push(RunEvent { seq, data: "x".repeat(MAX_BYTES / 2).into() });
        }
        assert_eq!(seqs(&recent, 0, 9), None);
        assert_eq!(seqs(&recent, 3, 9), Some(vec![4, 5]));
    }
}
