//! Record and replay. The external calls of a run are stored in a file, and the run can be repeated without making
//! these calls.
//!
//! A [`Recording`] contains the results of all external calls of a run, and the trace of the run. [`record_to`] creates
//! a recording, and [`Recording::replay`] runs the graph with it: each [`Context::task`](graph_core::Context::task),
//! clock reading and random number returns the recorded result, and no call is made. A changed graph or prompt can
//! therefore be tested on a past run, and a bug that occurred once can be reproduced any number of times.
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
mod replayer;
mod report;
mod unrecorded_call;

use std::sync::Arc;

use graph_core::{CompiledGraph, FieldWrite, Input, RunOptions, State, state::FieldError};
use serde_json::Value;

pub use file::{CallOutcome, RecordedCall, Recording, RecordingError};
pub use record::{Recorder, record_to};
pub use replayer::Replayer;
pub use report::{ReplayMismatchError, ReplayedRun};
pub use unrecorded_call::UnrecordedCall;

use crate::record::record;

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
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = std::env::temp_dir().join(format!("essay-{}.jsonl", std::process::id()));
    /// let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
    /// let essay = Essay { topic: "tea".into(), ..Essay::default() };
    /// let recorded = record_to(&graph, essay, (), RunOptions::new(), &path).await?;
    ///
    /// let replayed = Recording::read(&path)?.replay(&graph, ()).await?;
    /// replayed.check()?;
    /// assert_eq!(replayed.trace, recorded.trace);
    /// # std::fs::remove_file(path)?;
    /// # Ok(()) }
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
        let recorded = record(graph, input, deps, options).await;
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
