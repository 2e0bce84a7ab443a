//! Methods of a compiled graph that run it.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    engine::start::run_root,
    error::RunError,
    graph::compiled::CompiledGraph,
    run::{
        future::RunFuture,
        input::{Input, IntoInput},
        outcome::RunOutcome,
        request::request,
        stream::RunStream,
        thread::Thread,
    },
    state::{State, field::FieldError},
};

impl<S: State, C: Send + Sync + 'static> CompiledGraph<S, C> {
    /// Runs the graph once and returns the outcome: the final state, pending interrupts, or a stop.
    ///
    /// [`Thread::run`] does the same on a thread.
    pub fn run(&self, input: impl IntoInput<S>, deps: C) -> RunFuture<'_, RunOutcome<S>> {
        Box::pin(self.run_input(input.into_input(), deps))
    }

    async fn run_input(&self, input: Input<S>, deps: C) -> Result<RunOutcome<S>, RunError> {
        let options = self.options().clone();
        let request = request(self.erased(), input, Arc::new(deps), options, None);
        Ok(RunOutcome::new(run_root(request).await?))
    }

    /// Runs the graph once and returns the final state.
    ///
    /// Fails with [`RunError::Unfinished`] if the run is interrupted or reaches a static stop. Use a
    /// [`thread`](Self::thread) to continue such a run. [`Thread::invoke`] does the same on a thread.
    pub fn invoke(&self, input: impl IntoInput<S>, deps: C) -> RunFuture<'_, S> {
        let run = self.run_input(input.into_input(), deps);
        Box::pin(async { run.await?.into_final_state(false) })
    }

    /// Runs the graph once and streams its events.
    ///
    /// Polling the stream drives the run. Dropping the stream cancels the run.
    pub fn stream(&self, input: impl IntoInput<S>, deps: C) -> RunStream<S> {
        RunStream::new(self.options().clone(), |options| {
            request(self.erased(), input.into_input(), Arc::new(deps), options, None)
        })
    }

    /// Converts an input to JSON: the fields that it sets, or the parts of a command.
    pub fn input_to_json(&self, input: &Input<S>) -> Result<Value, FieldError> {
        input.to_json(self.erased())
    }

    /// Opens the thread with this name. The graph's checkpointer stores the thread's state between runs.
    pub fn thread(&self, name: impl Into<String>, deps: C) -> Thread<S, C> {
        Thread::new(self.clone(), name.into(), Arc::new(deps))
    }
}
