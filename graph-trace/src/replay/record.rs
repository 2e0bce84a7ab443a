//! Records the external calls of a run.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use graph_core::{
    CompiledGraph, EffectCall, EffectDecision, EffectInterceptor, Input, NodeError, RunOptions,
    State,
};
use serde_json::Value;

use super::file::{CallOutcome, RecordedCall, Recording, RecordingError};
use crate::{
    record::{RecordedRun, record},
    trace::Trace,
};

/// Runs a graph once and writes a [`Recording`] of the run to a file.
///
/// The recorder replaces the [`effect_interceptor`](RunOptions::effect_interceptor) in the options. Unlike a replay,
/// the run makes its external calls. The file contains their results unredacted; see [`Recording`].
///
/// ```
/// use graph_core::{Context, NodeError, RunOptions, START, State, StateGraph};
/// use graph_trace::{Recording, record_to};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Weather {
///     city: String,
///     report: String,
/// }
///
/// async fn look_up(weather: &Weather, cx: &Context) -> Result<WeatherUpdate, NodeError> {
///     // A real node sends a request to a weather service here.
///     let request = async { Ok("sunny".to_owned()) };
///     let report: String = cx.task("forecast", &weather.city, request).await?;
///     Ok(Weather::update().report(report))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = std::env::temp_dir().join(format!("oslo-{}.jsonl", std::process::id()));
/// let graph = StateGraph::<Weather>::new().node(look_up).edge(START, look_up).compile()?;
/// let weather = Weather { city: "Oslo".into(), ..Weather::default() };
/// record_to(&graph, weather, (), RunOptions::new(), &path).await?;
///
/// // Runs the graph again with the recorded forecast. No request is sent.
/// let replayed = Recording::read(&path)?.replay(&graph, ()).await?;
/// replayed.check()?;
/// assert_eq!(replayed.outcome?.state().report, "sunny");
/// # std::fs::remove_file(path)?;
/// # Ok(()) }
/// ```
pub async fn record_to<S: State, C: Send + Sync + 'static>(
    graph: &CompiledGraph<S, C>,
    input: impl Into<Input<S>>,
    deps: C,
    options: RunOptions,
    path: impl AsRef<Path>,
) -> Result<RecordedRun<S>, RecordingError> {
    let recorder = Recorder::new();
    let options = options.effect_interceptor(recorder.clone());
    let recorded = record(graph, input, deps, options).await;
    recorder.recording(&recorded.trace).write(path)?;
    Ok(recorded)
}

/// Records the external calls of a run. Pass a recorder to [`RunOptions::effect_interceptor`].
///
/// A thread that is resumed after a crash or an interrupt takes the results of the calls in its current step from
/// its own journal. These calls are recorded only by a recorder that was present when they were made.
///
/// ```
/// use graph_core::{Context, MemorySaver, NodeError, RunOptions, START, State, StateGraph};
/// use graph_trace::{CallOutcome, Recorder, record_thread};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Weather {
///     city: String,
///     report: String,
/// }
///
/// async fn look_up(weather: &Weather, cx: &Context) -> Result<WeatherUpdate, NodeError> {
///     let request = async { Ok("sunny".to_owned()) };
///     let report: String = cx.task("forecast", &weather.city, request).await?;
///     Ok(Weather::update().report(report))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Weather>::new()
///     .node(look_up)
///     .edge(START, look_up)
///     .checkpointer(MemorySaver::new())
///     .compile()?;
/// let recorder = Recorder::new();
/// let options = RunOptions::new().effect_interceptor(recorder.clone());
/// let thread = graph.thread("oslo", ()).with_options(options);
/// let weather = Weather { city: "Oslo".into(), ..Weather::default() };
/// let recorded = record_thread(&thread, weather).await;
///
/// let recording = recorder.recording(&recorded.trace);
/// assert_eq!(recording.calls[0].outcome, CallOutcome::Returned("sunny".into()));
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct Recorder {
    // A std mutex suffices, because it is locked briefly and never across an await.
    calls: Mutex<Vec<RecordedCall>>,
}

impl Recorder {
    /// Creates an empty recorder.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Returns a recording with the calls that have been recorded so far. `trace` is the trace of the run that made
    /// them.
    pub fn recording(&self, trace: &Trace) -> Recording {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Recording::new(trace.clone(), calls)
    }
}

impl EffectInterceptor for Recorder {
    fn before_call(&self, _: EffectCall<'_>) -> EffectDecision {
        EffectDecision::Execute
    }

    fn after_call(&self, call: EffectCall<'_>, outcome: Result<&Value, &NodeError>) {
        let outcome = match outcome {
            Ok(value) => CallOutcome::Returned(value.clone()),
            Err(error) => {
                CallOutcome::Failed { error: error.to_string(), terminal: error.is_terminal() }
            }
        };
        let call = RecordedCall {
            call_site: call.task_path.to_owned(),
            key: call.key.to_owned(),
            outcome,
        };
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }
}
