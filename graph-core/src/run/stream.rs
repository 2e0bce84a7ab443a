//! A run as a stream of its events.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_core::Stream;
use tokio::sync::mpsc;

use super::{Exit, RunOptions};
use crate::{
    RunError, State,
    engine::{self, RootRun},
    node::BoxFuture,
    stream::{Event, Sink},
};

/// A run as a stream of its events.
///
/// Reading it drives the run; a reader that is slow slows the run down. Dropping it ends the run, and the thread
/// can go on from its last step. After the last event, [`finish`](Self::finish) says how the run ended.
///
/// ```
/// # use graph_core::{Mode, RunOptions, START, State, StateGraph};
/// # #[derive(State, Clone, Debug, Default)]
/// # struct Essay { topic: String }
/// # async fn write(_: &Essay) -> EssayUpdate { Essay::update().topic("done") }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
/// let mut events = graph.stream(Essay::default(), (), RunOptions::new().modes([Mode::Values]));
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
    run: Option<BoxFuture<Result<Exit<S>, RunError>>>,
    exit: Option<Result<Exit<S>, RunError>>,
    events: mpsc::Receiver<Event>,
    seq: u64,
}

impl<S: State> RunStream<S> {
    pub(crate) fn new(
        options: RunOptions,
        request: impl FnOnce(RunOptions, Option<Box<dyn FnOnce(Arc<str>) -> Sink>>) -> RootRun,
    ) -> Self {
        let (sender, events) = mpsc::channel(options.buffer);
        let (modes, subgraphs) = (options.modes.clone(), options.subgraphs);
        let sink = move |run: Arc<str>| Sink::new(sender, &modes, subgraphs, run);
        let request = request(options, Some(Box::new(sink)));
        let run = async move { Ok(Exit::new(engine::run_root(request).await?)) };
        Self { run: Some(Box::pin(run)), exit: None, events, seq: 0 }
    }

    /// The next event; `None` when the run is over.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Reads what is left and says how the run ended.
    pub async fn finish(mut self) -> Result<Exit<S>, RunError> {
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
        if let Some(run) = &mut self.run
            && let Poll::Ready(exit) = run.as_mut().poll(cx)
        {
            self.run = None;
            self.exit = Some(exit);
            // What is in it can still be read; a context that outlived the run sends nothing more.
            self.events.close();
        }
        match self.events.poll_recv(cx) {
            Poll::Ready(Some(event)) => Poll::Ready(Some(self.numbered(event))),
            // The channel may end before the run does: its last checkpoints are still being stored.
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
