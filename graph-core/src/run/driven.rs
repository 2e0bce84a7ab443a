//! A run that is driven by reading its events.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::sync::mpsc;

use crate::{node::erased::BoxFuture, stream::Event};

/// A run and its events. Polling it for events drives the run.
pub(crate) struct Driven<T> {
    run: Option<BoxFuture<T>>,
    result: Option<T>,
    events: mpsc::Receiver<Event>,
    seq: u64,
}

impl<T> Unpin for Driven<T> {}

impl<T> Driven<T> {
    pub(crate) fn new(run: BoxFuture<T>, events: mpsc::Receiver<Event>) -> Self {
        Self { run: Some(run), result: None, events, seq: 0 }
    }

    /// Returns the number of events read so far.
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Poll::Ready(Some(event)) = self.events.poll_recv(cx) {
            return Poll::Ready(Some(self.numbered(event)));
        }
        if let Some(run) = &mut self.run {
            if let Poll::Ready(result) = Pin::new(run).poll(cx) {
                self.run = None;
                self.result = Some(result);
                // Buffered events can still be read, but a context that outlives the run can no longer send events.
                self.events.close();
            }
        }
        match self.events.poll_recv(cx) {
            Poll::Ready(Some(event)) => Poll::Ready(Some(self.numbered(event))),
            // The channel may close before the run ends, while the last checkpoints are being stored.
            Poll::Ready(None) if self.run.is_none() => Poll::Ready(None),
            _ => Poll::Pending,
        }
    }

    /// Returns the next event, or `None` when the run has ended.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Discards the remaining events and returns the result of the run.
    pub(crate) async fn finish(mut self) -> T {
        while self.next().await.is_some() {}
        self.result.expect("the events end only after the run has returned its result")
    }

    fn numbered(&mut self, mut event: Event) -> Event {
        event.seq = self.seq;
        self.seq += 1;
        event
    }
}
