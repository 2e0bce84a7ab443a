//! The buffer of a run's events. Readers can start at any event that is still buffered, so every stream is resumable.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use tokio::sync::watch;

use super::item::{Body, Item, SEQ_STEP};
use crate::langgraph::error::NamedError;

/// Maximum number of buffered events per run. Older events are dropped.
const CAPACITY: usize = 20_000;

/// The events of one run.
#[derive(Debug)]
pub(in crate::langgraph) struct EventBuffer {
    /// Number of the thread's latest event.
    counter: Arc<AtomicU64>,
    items: Mutex<VecDeque<Arc<Item>>>,
    /// Number of the last event, and whether the buffer is closed.
    end: watch::Sender<(u64, bool)>,
}

impl EventBuffer {
    /// Creates an empty buffer that takes its event numbers from `counter`.
    pub(in crate::langgraph) fn new(counter: Arc<AtomicU64>) -> Self {
        Self { counter, items: Mutex::default(), end: watch::Sender::new((0, false)) }
    }

    /// Appends an event.
    pub(in crate::langgraph) fn push(&self, body: Body) {
        let mut items = self.lock();
        let seq = self.counter.fetch_add(SEQ_STEP, Ordering::Relaxed) + SEQ_STEP;
        append(&mut items, Item { seq, at: SystemTime::now(), body });
        // Readers are notified while the lock is held: once one reader has read the event, all other readers are ready
        // too.
        self.end.send_modify(|end| end.0 = seq);
    }

    /// Appends an event that another replica has numbered.
    pub(in crate::langgraph) fn push_numbered(&self, item: Item) {
        let seq = item.seq;
        self.counter.fetch_max(seq, Ordering::Relaxed);
        let mut items = self.lock();
        append(&mut items, item);
        self.end.send_modify(|end| end.0 = seq);
    }

    /// Makes the numbers of all later events greater than `seq`.
    pub(in crate::langgraph) fn number_after(&self, seq: u64) {
        self.counter.fetch_max(seq, Ordering::Relaxed);
    }

    /// Marks the end of the run. Readers finish when they have read the remaining events.
    pub(in crate::langgraph) fn close(&self) {
        self.end.send_modify(|end| end.1 = true);
    }

    /// Returns whether the buffer is closed.
    pub(in crate::langgraph) fn is_closed(&self) -> bool {
        self.end.borrow().1
    }

    /// Returns once the buffer is closed.
    pub(in crate::langgraph) async fn closed(&self) {
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = self.end.subscribe().wait_for(|end| end.1).await;
    }

    /// Returns the number of buffered events.
    pub(in crate::langgraph) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns the first buffered event.
    pub(in crate::langgraph) fn first(&self) -> Option<Arc<Item>> {
        self.lock().front().cloned()
    }

    /// Returns the number of the last event, or 0 before the first event.
    pub(in crate::langgraph) fn last_seq(&self) -> u64 {
        self.end.borrow().0
    }

    /// Calls a function for the content of each buffered event, in order.
    pub(super) fn for_each(&self, visit: impl FnMut(&Body)) {
        self.lock().iter().map(|it| &it.body).for_each(visit);
    }

    /// Returns whether the run raised an interrupt.
    pub(in crate::langgraph) fn has_interrupt(&self) -> bool {
        self.lock().iter().rev().any(|it| matches!(it.body, Body::Interrupted { .. }))
    }

    /// Returns the error with which the run failed.
    pub(in crate::langgraph) fn failure(&self) -> Option<NamedError> {
        self.lock().iter().rev().find_map(|it| match &it.body {
            Body::Failed(error) => Some(error.clone()),
            _ => None,
        })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Item>>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the events after the event with the number `after`.
    fn after(&self, after: u64) -> Vec<Arc<Item>> {
        let items = self.lock();
        let start = items.partition_point(|it| it.seq <= after);
        items.range(start..).cloned().collect()
    }
}

fn append(items: &mut VecDeque<Arc<Item>>, item: Item) {
    if items.len() == CAPACITY {
        items.pop_front();
    }
    items.push_back(Arc::new(item));
}

/// Reads the events of one run.
pub(in crate::langgraph) struct BufferReader {
    buffer: Arc<EventBuffer>,
    seen: u64,
}

impl BufferReader {
    /// Creates a reader of the events after the event with the number `after`.
    pub(in crate::langgraph) fn new(buffer: Arc<EventBuffer>, after: u64) -> Self {
        Self { buffer, seen: after }
    }

    /// Returns the events that are available now.
    pub(in crate::langgraph) fn available(&mut self) -> Vec<Arc<Item>> {
        let items = self.buffer.after(self.seen);
        self.seen = items.last().map_or(self.seen, |it| it.seq);
        items
    }

    /// Waits for events. Returns `None` at the end of the run.
    pub(in crate::langgraph) async fn next(&mut self) -> Option<Vec<Arc<Item>>> {
        let mut end = self.buffer.end.subscribe();
        loop {
            let (_, closed) = *end.borrow_and_update();
            let items = self.available();
            if !items.is_empty() {
                return Some(items);
            }
            if closed || end.changed().await.is_err() {
                return None;
            }
        }
    }
}
