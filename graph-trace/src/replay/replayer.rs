//! Returns recorded results instead of making calls.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use graph_core::{EffectCall, EffectDecision, EffectInterceptor, NodeError};
use serde_json::Value;

use super::{
    file::{RecordedCall, compare_call_sites},
    unrecorded_call::UnrecordedCall,
};

/// Returns the recorded results of calls, so that the calls are not made.
///
/// A call is identified by its call site and key. Several calls with the same call site and key, such as retries of
/// a failed call, are replayed in the recorded order.
///
/// [`Recording::replay`](crate::Recording::replay) creates its own replayer. To run the graph in another way, for
/// example on a thread, create one with [`Recording::replayer`](crate::Recording::replayer) and pass it to
/// [`RunOptions::effect_interceptor`](graph_core::RunOptions::effect_interceptor).
///
/// ```
/// use graph_core::{Context, MemorySaver, NodeError, RunOptions, START, State, StateGraph};
/// use graph_trace::{CallOutcome, Recorder, record_thread};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Weather {
///     report: String,
/// }
///
/// async fn look_up(_: &Weather, cx: &Context) -> Result<WeatherUpdate, NodeError> {
///     let report: String = cx.task("forecast", "Oslo", async { Ok("sunny".to_owned()) }).await?;
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
/// let thread = graph.thread("recorded", ()).with_options(options);
/// let recorded = record_thread(&thread, Weather::default()).await;
///
/// // The replayed run takes its result from the recording, which is edited here.
/// let mut recording = recorder.recording(&recorded.trace);
/// recording.calls[0].outcome = CallOutcome::Returned("rain".into());
/// let replayer = recording.replayer();
/// let options = RunOptions::new().effect_interceptor(replayer.clone());
/// let thread = graph.thread("replayed", ()).with_options(options);
/// assert_eq!(thread.invoke(Weather::default()).await?.report, "rain");
/// assert!(replayer.unused_calls().is_empty() && replayer.unrecorded_calls().is_empty());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Replayer {
    calls: Vec<RecordedCall>,
    /// Indices of the calls at each call site, in the recorded order.
    by_call_site: BTreeMap<String, Vec<usize>>,
    // A std mutex suffices, because it is locked briefly and never across an await.
    state: Mutex<ReplayState>,
}

#[derive(Debug, Default)]
struct ReplayState {
    replayed: Vec<bool>,
    unrecorded: Vec<UnrecordedCall>,
}

impl Replayer {
    pub(super) fn new(calls: Vec<RecordedCall>) -> Self {
        let mut by_call_site: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (nth, call) in calls.iter().enumerate() {
            by_call_site.entry(call.call_site.clone()).or_default().push(nth);
        }
        let state = ReplayState { replayed: vec![false; calls.len()], unrecorded: Vec::new() };
        Self { calls, by_call_site, state: Mutex::new(state) }
    }

    /// Returns the calls that are not in the recording, ordered by call site.
    pub fn unrecorded_calls(&self) -> Vec<UnrecordedCall> {
        let mut calls = self.with_state(|it| it.unrecorded.clone());
        calls.sort_by(|a, b| {
            compare_call_sites(&a.call_site, &b.call_site).then_with(|| a.key.cmp(&b.key))
        });
        calls
    }

    /// Returns the recorded calls that have not been replayed.
    pub fn unused_calls(&self) -> Vec<RecordedCall> {
        let replayed = self.with_state(|it| it.replayed.clone());
        let calls = self.calls.iter().zip(replayed);
        calls.filter(|(_, replayed)| !replayed).map(|(call, _)| call.clone()).collect()
    }

    fn with_state<T>(&self, access: impl FnOnce(&mut ReplayState) -> T) -> T {
        access(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the recorded call that was expected instead: the next call at the call site with the same name, or else
    /// the next call at the call site. Replayed calls are skipped.
    fn expected(&self, call: EffectCall<'_>, replayed: &[bool]) -> Option<usize> {
        let open = || {
            self.by_call_site.get(call.task_path).into_iter().flatten().filter(|it| !replayed[**it])
        };
        let name = |key: &str| key.split_once(':').map_or(key.len(), |it| it.0.len());
        let named = |it: &&usize| {
            let key = &self.calls[**it].key;
            key[..name(key)] == call.key[..name(call.key)]
        };
        open().find(named).or_else(|| open().next()).copied()
    }
}

impl EffectInterceptor for Replayer {
    fn before_call(&self, call: EffectCall<'_>) -> EffectDecision {
        self.with_state(|state| {
            let here = self.by_call_site.get(call.task_path).into_iter().flatten().copied();
            let known = |it: &usize| !state.replayed[*it] && self.calls[*it].key == call.key;
            if let Some(nth) = here.clone().find(known) {
                state.replayed[nth] = true;
                return self.calls[nth].outcome.before_call();
            }
            let expected =
                self.expected(call, &state.replayed).map(|it| self.calls[it].key.clone());
            let recorded_count = here.filter(|it| self.calls[*it].key == call.key).count();
            let elsewhere =
                self.calls.iter().find(|it| it.key == call.key && it.call_site != call.task_path);
            let unrecorded = UnrecordedCall {
                call_site: call.task_path.to_owned(),
                key: call.key.to_owned(),
                expected,
                recorded_count,
                recorded_at: elsewhere.map(|it| it.call_site.clone()),
            };
            let problem = unrecorded.problem();
            state.unrecorded.push(unrecorded);
            EffectDecision::Diverge(problem)
        })
    }

    fn after_call(&self, _: EffectCall<'_>, _: Result<&Value, &NodeError>) {}
}
