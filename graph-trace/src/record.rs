//! Runs a graph and records its trace.

use graph_core::{
    CompiledGraph, Input, RunError, RunOptions, RunOutcome, RunStream, State, StreamMode, Thread,
};
use serde_json::Value;

use crate::{
    build::TraceBuilder,
    trace::{Header, RunStatus, Trace},
};

/// A recorded run, with its trace and its result.
#[derive(Debug)]
#[must_use]
pub struct RecordedRun<S> {
    /// The trace of the run.
    pub trace: Trace,
    /// The result of the run.
    pub outcome: Result<RunOutcome<S>, RunError>,
    builder: TraceBuilder,
}

impl<S: State> RecordedRun<S> {
    /// Runs the thread again and records that run too. The returned trace covers all runs.
    ///
    /// Repeated steps replace the earlier ones, so a thread that failed or crashed and was then resumed has the
    /// same trace as a thread that did not.
    pub async fn then<C: Send + Sync + 'static>(
        self,
        thread: &Thread<S, C>,
        input: impl Into<Input<S>>,
    ) -> Self {
        run_thread(thread, input.into(), self.builder).await
    }
}

impl<S> AsRef<Trace> for RecordedRun<S> {
    fn as_ref(&self) -> &Trace {
        &self.trace
    }
}

impl AsRef<Self> for Trace {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// Runs a graph once and records its trace.
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
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
/// let essay = Essay { topic: "tea".into(), ..Essay::default() };
/// let recorded = graph_trace::record(&graph, essay, (), RunOptions::new()).await;
/// assert_eq!(recorded.trace.root.steps[1].tasks[0].node, "write");
/// # Ok(()) }
/// ```
pub async fn record<S: State, C: Send + Sync + 'static>(
    graph: &CompiledGraph<S, C>,
    input: impl Into<Input<S>>,
    deps: C,
    options: RunOptions,
) -> RecordedRun<S> {
    let input = input.into();
    let header = header(graph, &input);
    let events = graph.with(TraceBuilder::enable_events(options)).stream(input, deps);
    collect(events, header, TraceBuilder::new()).await
}

/// Runs a thread and records its trace.
///
/// ```
/// use graph_core::{Context, Input, MemorySaver, NodeError, START, State, StateGraph};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Order {
///     item: String,
///     approved: bool,
/// }
///
/// async fn approve(order: &Order, cx: &Context) -> Result<OrderUpdate, NodeError> {
///     let answer: bool = cx.interrupt(format!("buy {}?", order.item))?;
///     Ok(Order::update().approved(answer))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Order>::new()
///     .node(approve)
///     .edge(START, approve)
///     .checkpointer(MemorySaver::new())
///     .compile()?;
/// let thread = graph.thread("order-7", ());
/// let order = Order { item: "tea".into(), ..Order::default() };
/// let interrupted = graph_trace::record_thread(&thread, order).await;
/// let recorded = interrupted.then(&thread, Input::resume(true)?).await;
/// let approve = &recorded.trace.root.steps[1].tasks[0];
/// assert_eq!(approve.interrupts[0], "buy tea?");
/// assert_eq!(approve.writes[0].value, true);
/// # Ok(()) }
/// ```
pub async fn record_thread<S: State, C: Send + Sync + 'static>(
    thread: &Thread<S, C>,
    input: impl Into<Input<S>>,
) -> RecordedRun<S> {
    run_thread(thread, input.into(), TraceBuilder::new()).await
}

async fn run_thread<S: State, C: Send + Sync + 'static>(
    thread: &Thread<S, C>,
    input: Input<S>,
    builder: TraceBuilder,
) -> RecordedRun<S> {
    let header = header(thread.graph(), &input);
    let options = TraceBuilder::enable_events(thread.options().clone());
    collect(thread.clone().with_options(options).stream(input), header, builder).await
}

impl TraceBuilder {
    /// Enables the events that a trace needs: events of all kinds, including those of subgraphs.
    pub fn enable_events(options: RunOptions) -> RunOptions {
        options.stream_modes(StreamMode::DEBUG).subgraphs()
    }
}

pub(crate) fn header<S: State, C: Send + Sync + 'static>(
    graph: &CompiledGraph<S, C>,
    input: &Input<S>,
) -> Header {
    let input = graph.input_to_json(input);
    Header {
        graph: graph.fingerprint(),
        engine: graph_core::VERSION.to_owned(),
        input: input.unwrap_or_else(|error| Value::String(format!("<not JSON: {error}>"))),
        later_inputs: Vec::new(),
    }
}

async fn collect<S: State>(
    mut events: RunStream<S>,
    header: Header,
    mut builder: TraceBuilder,
) -> RecordedRun<S> {
    builder.begin_run(header.input.clone());
    while let Some(event) = events.next().await {
        builder.add_event(&event);
    }
    let outcome = events.finish().await;
    let end = RunStatus::from_result(&outcome);
    RecordedRun { trace: builder.clone().finish(header, end), outcome, builder }
}

impl RunStatus {
    /// Converts the result of a run to a status.
    pub fn from_result<S>(result: &Result<RunOutcome<S>, RunError>) -> Self {
        match result {
            Ok(RunOutcome::Done(_)) => Self::Done,
            Ok(RunOutcome::Interrupted { .. }) => Self::Interrupted,
            Ok(_) => Self::Stopped,
            Err(RunError::Cancelled) => Self::Unfinished,
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}
