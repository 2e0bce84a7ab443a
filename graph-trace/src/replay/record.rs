//! Recording a run's outside calls.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use graph_core::{CompiledGraph, EffectCall, Effects, Input, NodeError, Recall, RunOptions, State};
use serde_json::Value;

use super::file::{Call, Outcome, Recording, RecordingError};
use crate::{Recorded, Trace};

/// Runs a graph once and writes a [`Recording`] of it to a file.
///
/// The options' own [`effects`](RunOptions::effects) are not asked: the run is recorded as it makes its calls. The
/// file holds what the calls brought as it is: see [`Recording`].
pub async fn record_to<S: State, C: Send + Sync + 'static>(
    graph: &CompiledGraph<S, C>,
    input: impl Into<Input<S>>,
    deps: C,
    options: RunOptions,
    path: impl AsRef<Path>,
) -> Result<Recorded<S>, RecordingError> {
    let recorder = Recorder::new();
    let options = options.effects(recorder.clone());
    let recorded = crate::record(graph, input, deps, options).await;
    recorder.recording(&recorded.trace).write(path)?;
    Ok(recorded)
}

/// Takes down the outside calls of a run: give it to [`RunOptions::effects`].
///
/// A thread that goes on after a crash or a question gives the calls of its open step from its own journal, without
/// asking; a recorder that was there when they were made still has them, another one does not.
#[derive(Debug, Default)]
pub struct Recorder {
    // A std mutex: held for a moment, never over an await.
    calls: Mutex<Vec<Call>>,
}

impl Recorder {
    /// One that has seen nothing yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The recording of the calls seen so far, made by the run of this trace.
    pub fn recording(&self, trace: &Trace) -> Recording {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Recording::new(trace.clone(), calls)
    }
}

impl Effects for Recorder {
    fn recall(&self, _: EffectCall<'_>) -> Recall {
        Recall::Make
    }

    fn made(&self, call: EffectCall<'_>, outcome: Result<&Value, &NodeError>) {
        let outcome = match outcome {
            Ok(value) => Outcome::Came(value.clone()),
            Err(error) => {
                Outcome::Failed { error: error.to_string(), terminal: error.is_terminal() }
            }
        };
        let call = Call { place: call.place.to_owned(), key: call.key.to_owned(), outcome };
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }
}
