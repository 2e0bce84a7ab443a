//! Reading a run's events in order, from any of them on, for as long as it runs.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{Inner, ServiceError};
use crate::run::{RunEvent, Status};

/// So many events are read at once, of so many bytes together.
const MOST: usize = 64;
const BYTES: usize = 256 << 10;

/// Reads a run's events.
#[derive(Debug)]
pub struct Reader {
    pub(super) inner: Arc<Inner>,
    pub(super) id: String,
    /// The last event that was read.
    pub(super) after: u64,
}

/// What a [`Reader`] comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// Events, in order.
    Events(Vec<RunEvent>),
    /// The run rests, and all its events were read.
    End(Status),
    /// The server ends. The run may go on when it is back.
    Closing,
}

impl Reader {
    /// Waits for what follows.
    pub async fn next(&mut self) -> Result<Read, ServiceError> {
        loop {
            let live = self.inner.live(&self.id);
            // Before the events: a run that rested then has told all of them.
            let status = match &live {
                Some(_) => None,
                None => Some(self.inner.get(&self.id).await?.status),
            };
            let head = live.as_ref().map(|it| it.feed.watch());
            let mut events = match live.as_ref().and_then(|it| it.feed.after(self.after, MOST)) {
                Some(events) => events,
                None => self.inner.stored(&self.id, self.after, MOST).await?,
            };
            shorten(&mut events);
            if let Some(last) = events.last() {
                self.after = last.seq;
                return Ok(Read::Events(events));
            }
            let Some(mut head) = head else {
                let Some(status) = status else { continue };
                // It was put into the queue since, or was put aside because the server ends.
                if !status.is_live() {
                    return Ok(Read::End(status));
                }
                if *self.inner.closing.borrow() {
                    return Ok(Read::Closing);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let after = self.after;
            let mut closing = self.inner.closing.subscribe();
            tokio::select! {
                _ = head.wait_for(|it| it.last > after || it.is_done) => {}
                () = until_true(&mut closing) => return Ok(Read::Closing),
            }
        }
    }
}

/// Leaves the first events, of so many bytes together; one at least.
fn shorten(events: &mut Vec<RunEvent>) {
    let mut bytes = 0;
    let fit = events.iter().take_while(|it| {
        bytes += it.data.len();
        bytes <= BYTES
    });
    let fit = fit.count().max(1);
    events.truncate(fit);
}

/// Waits until a value is true; for ever if nobody can make it so.
pub(super) async fn until_true(value: &mut watch::Receiver<bool>) {
    if value.wait_for(|it| *it).await.is_err() {
        std::future::pending::<()>().await;
    }
}
