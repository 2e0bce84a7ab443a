//! Running a graph and recording what it does.

use graph_core::{
    CompiledGraph, Exit, Input, Mode, RunError, RunOptions, RunStream, State, Thread,
};
use serde_json::Value;

use crate::{
    build::TraceBuilder,
    trace::{End, Header, Trace},
};

/// A run that was recorded: what it did, and how it ended.
#[derive(Debug)]
#[must_use]
pub struct Recorded<S> {
    /// What it did.
    pub trace: Trace,
    /// How it ended.
    pub outcome: Result<Exit<S>, RunError>,
}

/// Runs a graph once and records what it does.
///
/// ```
/// use graph_core::{RunOptions, START, State, StateGraph};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Essay {
///     topic: String,
///     text: String,
/// }
///
/// async fn write(essay: &Essay) -> EssayUpdate {
///     Essay::update().text(format!("On {}", essay.topic))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
/// let essay = Essay { topic: "tea".into(), ..Essay::default() };
/// let recorded = graph_trace::record(&graph, essay, (), RunOptions::new()).await;
/// assert_eq!(recorded.trace.root.steps[1].tasks[0].node, "write");
/// # Ok(())
/// # }
/// ```
pub async fn record<S: State, C: Send + Sync + 'static>(
    graph: &CompiledGraph<S, C>,
    input: impl Into<Input<S>>,
    deps: C,
    options: RunOptions,
) -> Recorded<S> {
    let input = input.into();
    let header = header(graph, &input);
    collect(graph.stream(input, deps, watched(options)), header).await
}

/// Runs a thread and records what it does.
pub async fn record_thread<S: State, C: Send + Sync + 'static>(
    thread: &Thread<S, C>,
    input: impl Into<Input<S>>,
) -> Recorded<S> {
    let input = input.into();
    let header = header(thread.graph(), &input);
    let watched = thread.clone().with(watched(thread.options().clone()));
    collect(watched.stream(input), header).await
}

/// The options with everything switched on that a trace needs.
fn watched(options: RunOptions) -> RunOptions {
    let modes = [
        Mode::Values,
        Mode::Updates,
        Mode::Custom,
        Mode::Messages,
        Mode::Tasks,
        Mode::Effects,
    ];
    options.modes(modes).subgraphs()
}

fn header<S: State, C: Send + Sync + 'static>(
    graph: &CompiledGraph<S, C>,
    input: &Input<S>,
) -> Header {
    let input = graph.describe(input);
    Header {
        graph: graph.identity(),
        engine: graph_core::VERSION.to_owned(),
        input: input.unwrap_or_else(|error| Value::String(format!("<not JSON: {error}>"))),
    }
}

async fn collect<S: State>(mut events: RunStream<S>, header: Header) -> Recorded<S> {
    let mut builder = TraceBuilder::new();
    while let Some(event) = events.next().await {
        builder.note(&event);
    }
    let outcome = events.finish().await;
    let end = End::of(&outcome);
    Recorded { trace: builder.finish(header, end), outcome }
}

impl End {
    /// How a run ended, from its outcome.
    pub fn of<S>(outcome: &Result<Exit<S>, RunError>) -> Self {
        match outcome {
            Ok(Exit::Done(_)) => Self::Done,
            Ok(Exit::Interrupted { .. }) => Self::Asked,
            Ok(_) => Self::Stopped,
            Err(RunError::Cancelled) => Self::Unfinished,
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}
