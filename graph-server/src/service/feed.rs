//! What a live run told last, for readers that keep up.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use tokio::sync::watch;

use crate::run::RunEvent;

/// So many events are kept at hand, of at most so many bytes together. Whoever is further behind reads from the disk,
/// so a slow reader holds up nobody and costs no memory.
const EVENTS: usize = 256;
const BYTES: usize = 1 << 20;

/// What a live run told last.
#[derive(Debug)]
pub(crate) struct Feed {
    tail: Mutex<Tail>,
    head: watch::Sender<Head>,
}

#[derive(Debug, Default)]
struct Tail {
    events: VecDeque<RunEvent>,
    bytes: usize,
}

/// How far a run is told.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Head {
    /// The last event's number.
    pub(crate) last: u64,
    /// Whether nothing more follows.
    pub(crate) is_done: bool,
}

impl Feed {
    pub(crate) fn new() -> Self {
        Self { tail: Mutex::default(), head: watch::Sender::new(Head::default()) }
    }

    pub(crate) fn tell(&self, event: RunEvent) {
        let last = event.seq;
        {
            let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
            tail.bytes += event.data.len();
            tail.events.push_back(event);
            while tail.events.len() > EVENTS || (tail.bytes > BYTES && tail.events.len() > 1) {
                let gone = tail.events.pop_front().map_or(0, |it| it.data.len());
                tail.bytes -= gone;
            }
        }
        self.head.send_modify(|it| it.last = last);
    }

    /// Nothing more follows.
    pub(crate) fn close(&self) {
        self.head.send_modify(|it| it.is_done = true);
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Head> {
        self.head.subscribe()
    }

    /// The events after a number, at most so many; `None` where only the disk has them.
    pub(crate) fn after(&self, after: u64, most: usize) -> Option<Vec<RunEvent>> {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let first = tail.events.front()?.seq;
        let skipped = usize::try_from(after.checked_add(1)?.checked_sub(first)?).ok()?;
        Some(tail.events.iter().skip(skipped).take(most).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::{BYTES, EVENTS, Feed, RunEvent};

    fn seqs(feed: &Feed, after: u64, most: usize) -> Option<Vec<u64>> {
        Some(feed.after(after, most)?.into_iter().map(|it| it.seq).collect())
    }

    #[test]
    fn readers_that_keep_up_need_no_disk() {
        let feed = Feed::new();
        assert_eq!(seqs(&feed, 0, 9), None, "it may have told something in another process");
        for seq in 1..=EVENTS as u64 + 10 {
            feed.tell(RunEvent { seq, data: "{}".into() });
        }
        assert_eq!(seqs(&feed, 9, 9), None);
        assert_eq!(seqs(&feed, 10, 2), Some(vec![11, 12]));
        let last = EVENTS as u64 + 10;
        assert_eq!(seqs(&feed, last - 1, 9), Some(vec![last]));
        assert_eq!(seqs(&feed, last, 9), Some(vec![]));
        assert_eq!(seqs(&feed, u64::MAX, 9), None);
        assert_eq!(feed.watch().borrow().last, last);
    }

    #[test]
    fn large_events_are_not_kept() {
        let feed = Feed::new();
        for seq in 1..=5 {
            feed.tell(RunEvent { seq, data: "x".repeat(BYTES / 2).into() });
        }
        assert_eq!(seqs(&feed, 0, 9), None);
        assert_eq!(seqs(&feed, 3, 9), Some(vec![4, 5]));
    }
}
