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
    run::{driven::Driven, outcome::RunOutcome},
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
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
/// let options = RunOptions::new().stream_modes([StreamMode::Values]);
/// let mut events = graph.with(options).stream(Essay::default(), ());
/// while let Some(event) = events.next().await {
///     println!("{} {:?}", event.step, event.kind);
/// }
/// let essay = events.finish().await?.into_state();
/// assert_eq!(essay.topic, "done");
/// # Ok(()) }
/// ```
#[must_use]
pub struct RunStream<S> {
    driven: Driven<Result<RunOutcome<S>, RunError>>,
}

impl<S: State> RunStream<S> {
    pub(crate) fn new(options: RunOptions, request: impl FnOnce(RunOptions) -> RootRun) -> Self {
        let (sender, events) = mpsc::channel(options.event_buffer);
        let (modes, subgraphs) = (options.stream_modes.clone(), options.subgraphs);
        let mut request = request(options);
        request.events = Some(EventSender::new(sender, &modes, subgraphs, request.run.clone()));
        let run = async move { Ok(RunOutcome::new(run_root(request).await?)) };
        Self { driven: Driven::new(Box::pin(run), events) }
    }

    /// Returns the next event, or `None` when the run has ended.
    pub async fn next(&mut self) -> Option<Event> {
        self.driven.next().await
    }

    /// Discards the remaining events and returns the outcome of the run.
    pub async fn finish(self) -> Result<RunOutcome<S>, RunError> {
        self.driven.finish().await
    }
}

impl<S> Unpin for RunStream<S> {}

impl<S> Stream for RunStream<S> {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.driven.poll_next(cx)
    }
}

impl<S> fmt::Debug for RunStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStream").field("seq", &self.driven.seq()).finish_non_exhaustive()
    }
}
