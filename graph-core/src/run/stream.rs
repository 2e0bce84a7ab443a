//! The event stream of a run.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use futures_core::Stream;
use tokio::sync::mpsc;

use crate::{
    engine::start::{RootRun, run_root},
    error::RunError,
    graph::run_options::RunOptions,
    node::erased::BoxFuture,
    run::outcome::RunOutcome,
    state::State,
    stream::{Event, EventSender},
};

/// The event stream of a run.
///
/// Reading the stream drives the run, and a slow reader slows the run down. Dropping the stream cancels the run; the
/// thread can then continue from its last checkpoint. After the last event, [`finish`](Self::finish) returns the
/// outcome.
///
/// ```
/// # use graph_core::{RunOptions, START, State, StateGraph, StreamMode};
/// # #[derive(State, Clone, Debug, Default)]
/// # struct Essay { topic: String }
/// # async fn write(_: &Essay) -> EssayUpdate { Essay::update().topic("done") }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
/// let options = RunOptions::new().stream_modes([StreamMode::Values]);
/// let mut events = graph.with(options).stream(Essay::default(), ());
/// while let Some(event) = events.next().await {
///     println!("{} {:?}", event.step, event.kind);
/// }
/// let essay = events.finish().await?.into_state();
/// assert_eq!(essay.topic, "done");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct RunStream<S> {
    run: Option<BoxFuture<Result<RunOutcome<S>, RunError>>>,
    exit: Option<Result<RunOutcome<S>, RunError>>,
    events: mpsc::Receiver<Event>,
    seq: u64,
}

impl<S: State> RunStream<S> {
    pub(crate) fn new(options: RunOptions, request: impl FnOnce(RunOptions) -> RootRun) -> Self {
        let (sender, events) = mpsc::channel(options.event_buffer);
        let (modes, subgraphs) = (options.stream_modes.clone(), options.subgraphs);
        let mut request = request(options);
        request.events = Some(EventSender::new(sender, &modes, subgraphs, request.run.clone()));
        let run = async move { Ok(RunOutcome::new(run_root(request).await?)) };
        Self { run: Some(Box::pin(run)), exit: None, events, seq: 0 }
    }

    /// Returns the next event, or `None` when the run has ended.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Discards the remaining events and returns the outcome of the run.
    pub async fn finish(mut self) -> Result<RunOutcome<S>, RunError> {
        while self.next().await.is_some() {}
        self.exit.unwrap_or(Err(RunError::Cancelled))
    }
}

impl<S> RunStream<S> {
    fn numbered(&mut self, mut event: Event) -> Event {
        event.seq = self.seq;
        self.seq += 1;
        event
    }
}

impl<S> Unpin for RunStream<S> {}

impl<S> Stream for RunStream<S> {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Poll::Ready(Some(event)) = self.events.poll_recv(cx) {
            return Poll::Ready(Some(self.numbered(event)));
        }
        if let Some(run) = &mut self.run {
            if let Poll::Ready(exit) = run.as_mut().poll(cx) {
                self.run = None;
                self.exit = Some(exit);
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
}

impl<S> fmt::Debug for RunStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStream").field("seq", &self.seq).finish_non_exhaustive()
    }
}
