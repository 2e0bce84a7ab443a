//! Record and replay. The external calls of a run are stored in a file, and the run can be repeated without making
//! these calls.
//!
//! A [`Recording`] contains the results of all external calls of a run, and the trace of the run. [`record_to`]
//! creates a recording, and [`Recording::replay`] runs the graph with it: each
//! [`Context::task`](graph_core::Context::task), clock reading and random number returns the recorded result, and
//! no call is made. A changed graph or prompt can thus be tried on a past run, and a bug that occurred once can be
//! reproduced any number of times.
//!
//! A recording contains the results of calls **unredacted**. If the results contain secrets or personal data, so
//! does the file.
//!
//! A replay cannot restore the type of an error. A recorded error is replayed as a
//! [`RecordedError`](graph_core::RecordedError) with the same message, which is terminal if the original error was
//! terminal. A retry policy that depends on error types may therefore decide differently; a retry policy that
//! depends on messages does not.

mod file;
mod record;
mod report;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use graph_core::{
    CompiledGraph, EffectCall, EffectDecision, EffectInterceptor, FieldWrite, Input, NodeError,
    RunOptions, State, state::FieldError,
};
use serde_json::Value;

pub use file::{CallOutcome, RecordedCall, Recording, RecordingError};
pub use record::{Recorder, record_to};
pub use report::{ReplayMismatchError, ReplayedRun, UnrecordedCall};

impl Recording {
    /// Runs the graph with the recorded input and the recorded results of external calls.
    ///
    /// No call is made. A call that is not in the recording fails its task with a terminal error, and therefore
    /// fails the run. The call is listed in [`ReplayedRun::unrecorded_calls`], together with the call that was
    /// expected instead.
    ///
    /// ```
    /// use graph_core::{Context, NodeError, RunOptions, START, State, StateGraph};
    /// use graph_trace::{Recording, record_to};
    ///
    /// #[derive(State, Clone, Debug, Default)]
    /// struct Essay {
    ///     topic: String,
    ///     text: String,
    /// }
    ///
    /// async fn write(essay: &Essay, cx: &Context) -> Result<EssayUpdate, NodeError> {
    ///     let topic = &essay.topic;
    ///     let text = cx.task("ask", topic, async { Ok(format!("All about {topic}.")) }).await?;
    ///     Ok(Essay::update().text(text))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = std::env::temp_dir().join(format!("essay-{}.jsonl", std::process::id()));
    /// let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
    /// let essay = Essay { topic: "tea".into(), ..Essay::default() };
    /// let recorded = record_to(&graph, essay, (), RunOptions::new(), &path).await?;
    ///
    /// let replayed = Recording::read(&path)?.replay(&graph, ()).await?;
    /// replayed.check()?;
    /// assert_eq!(replayed.trace, recorded.trace);
    /// # std::fs::remove_file(path)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Fails without running anything if the recorded input does not match the graph's state, for example because
    /// it is a command to a thread. In that case, pass the input to [`replay_on`](Self::replay_on).
    pub async fn replay<S: State + Default, C: Send + Sync + 'static>(
        &self,
        graph: &CompiledGraph<S, C>,
        deps: C,
    ) -> Result<ReplayedRun<S>, FieldError> {
        let input = Input::update(S::default().update_from(writes_of(&self.header.input))?);
        Ok(self.replay_on(graph, input, deps, RunOptions::new()).await)
    }

    /// Runs the graph with the recorded results of external calls, but with the given input and options.
    pub async fn replay_on<S: State, C: Send + Sync + 'static>(
        &self,
        graph: &CompiledGraph<S, C>,
        input: impl Into<Input<S>>,
        deps: C,
        options: RunOptions,
    ) -> ReplayedRun<S> {
        let replayer = self.replayer();
        let options = options.effect_interceptor(replayer.clone());
        let recorded = crate::record(graph, input, deps, options).await;
        ReplayedRun::new(recorded, &replayer, self)
    }

    /// Returns a replayer for the recorded calls, which can be used in other runs; see
    /// [`RunOptions::effect_interceptor`](graph_core::RunOptions::effect_interceptor).
    pub fn replayer(&self) -> Arc<Replayer> {
        Arc::new(Replayer::new(self.calls.clone()))
    }
}

/// Converts an input to writes. The input has the form that is shown in a trace.
fn writes_of(input: &Value) -> Vec<FieldWrite> {
    let fields = input.as_object().into_iter().flatten();
    let write = |(field, value): (&String, &Value)| {
        let whole = value.as_object().filter(|it| it.len() == 1).and_then(|it| it.get("overwrite"));
        FieldWrite {
            field: field.clone(),
            value: whole.unwrap_or(value).clone(),
            overwrite: whole.is_some(),
        }
    };
    fields.map(write).collect()
}

/// Returns the recorded results of calls, so that the calls are not made.
///
/// A call is identified by its call site and key. Several calls with the same call site and key, such as retries of
/// a failed call, are replayed in the recorded order.
#[derive(Debug)]
pub struct Replayer {
    calls: Vec<RecordedCall>,
    /// Indices of the calls at each call site, in the recorded order.
    by_call_site: BTreeMap<String, Vec<usize>>,
    // A std mutex, because it is only locked briefly and never across an await.
    state: Mutex<ReplayState>,
}

#[derive(Debug, Default)]
struct ReplayState {
    replayed: Vec<bool>,
    unrecorded: Vec<UnrecordedCall>,
}

impl Replayer {
    fn new(calls: Vec<RecordedCall>) -> Self {
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
            file::compare_call_sites(&a.call_site, &b.call_site).then_with(|| a.key.cmp(&b.key))
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

    /// Returns the recorded call that was expected instead. This is the first call at the call site with the same
    /// name, or else the next call at the call site.
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
