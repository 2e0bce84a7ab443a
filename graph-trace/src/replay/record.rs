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
/// The recorder replaces the [`effect_interceptor`](RunOptions::effect_interceptor) in the options. Unlike a replay, the
/// run makes its external calls. The file contains their results unredacted; see [`Recording`].
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
