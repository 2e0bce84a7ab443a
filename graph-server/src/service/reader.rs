//! Reading a run's events in order, from any of them on, for as long as it runs.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{Inner, ServiceError};
use crate::run::{RunEvent, Status};

/// So many events are read at once.
const MOST: usize = 64;

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
            let head = live.as_ref().map(|it| it.feed.watch());
            let events = match live.as_ref().and_then(|it| it.feed.after(self.after, MOST)) {
                Some(events) => events,
                None => self.inner.stored(&self.id, self.after, MOST).await?,
            };
            if let Some(last) = events.last() {
                self.after = last.seq;
                return Ok(Read::Events(events));
            }
            let Some(mut head) = head else {
                let status = self.inner.get(&self.id).await?.status;
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

/// Waits until a value is true; for ever if nobody can make it so.
pub(super) async fn until_true(value: &mut watch::Receiver<bool>) {
    if value.wait_for(|it| *it).await.is_err() {
        std::future::pending::<()>().await;
    }
}
