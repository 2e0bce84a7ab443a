//! Type-erased graphs. Only this module knows the state types of graphs.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::FutureExt;
use graph_core::{
    CompiledGraph, Event, Input, Interrupt, RunError, RunOptions, RunOutcome, RunStream, State,
    Thread, ThreadState, checkpoint::CheckpointError,
};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::{event_log::EventLog, run_config::RunConfig};
use crate::{
    run::to_millis,
    runner::{EventSender, RunnerError, RunnerOutcome},
};

/// Maximum number of events stored in one transaction.
const MAX_BATCH: usize = 64;

/// Interval between attempts to lease a thread. A cancelled run keeps its lease on the thread until its queued
/// writes are stored, so resuming the run must wait for the lease.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum time for which a resumed run waits for the lease on its thread.
const LEASE_TIMEOUT: Duration = Duration::from_secs(60);

/// A graph whose state type is erased.
#[async_trait]
pub(super) trait AnyGraph: Send + Sync {
    /// Executes or resumes a run on its thread.
    async fn execute(
        &self,
        log: &EventLog,
        run: &str,
        config: RunConfig,
        answers: Map<String, Value>,
        sender: &EventSender,
    ) -> Result<RunnerOutcome, RunnerError>;

    /// Returns the state of a thread as JSON. Returns `None` if the thread has never run.
    async fn state(&self, thread: &str) -> Result<Option<Value>, RunError>;

    /// Returns up to `limit` checkpoints of a thread as JSON, newest first.
    async fn history(&self, thread: &str, limit: usize) -> Result<Vec<Value>, RunError>;

    /// Returns the id of the thread's latest run and the pending interrupts. Returns `None` if the thread has never
    /// run.
    async fn pending_interrupts(
        &self,
        thread: &str,
    ) -> Result<Option<(String, Vec<Interrupt>)>, RunError>;

    /// Checks that the fields are valid input for the graph. The error describes the problem.
    fn check_input(&self, input: &Map<String, Value>) -> Result<(), String>;

    /// Returns the nodes and edges of the graph as JSON.
    fn to_json(&self) -> Value;
}

pub(super) struct TypedGraph<S: State, C> {
    pub(super) graph: CompiledGraph<S, C>,
    pub(super) deps: Box<dyn Fn() -> C + Send + Sync>,
}

impl<S: State, C: Send + Sync + 'static> TypedGraph<S, C> {
    fn thread(&self, name: &str) -> Thread<S, C> {
        self.graph.thread(name, (self.deps)())
    }

    /// Determines the input for the thread. This is the run's input if the thread has not received it yet, and
    /// otherwise the answers to the pending interrupts.
    async fn input(
        &self,
        log: &EventLog,
        thread: &Thread<S, C>,
        run: &str,
        config: RunConfig,
        mut answers: Map<String, Value>,
    ) -> Result<Input<S>, RunnerError> {
        let state = thread.state().await.map_err(run_error)?;
        let thread_exists = state.is_some();
        let Some(state) = state.filter(|it| it.run == run) else {
            let has_events = log.has_events(run).map_err(|error| {
                RunnerError(format!("cannot read the events of the run: {error}"))
            })?;
            if has_events {
                let message = if thread_exists {
                    "a later run has used the thread of this run, so this run cannot be resumed; start a new run"
                } else {
                    "the thread of this run no longer exists in the checkpointer; start a new run"
                };
                return Err(RunnerError(message.into()));
            }
            let update = self
                .graph
                .update_from_json(config.input)
                .map_err(|it| RunnerError(it.to_string()))?;
            return Ok(Input::update(update));
        };
        let pending = state.interrupts().into_iter().map(|it| it.id.clone());
        let answers: Vec<_> = pending.filter_map(|id| answers.remove_entry(&id)).collect();
        Ok(if answers.is_empty() { Input::proceed() } else { Input::resume_by_id(answers) })
    }
}

#[async_trait]
impl<S: State, C: Send + Sync + 'static> AnyGraph for TypedGraph<S, C> {
    async fn execute(
        &self,
        log: &EventLog,
        run: &str,
        config: RunConfig,
        answers: Map<String, Value>,
        sender: &EventSender,
    ) -> Result<RunnerOutcome, RunnerError> {
        let deadline = Instant::now() + LEASE_TIMEOUT;
        let exit = loop {
            let options =
                RunOptions::new().run_id(run).stream_modes(config.modes.clone()).subgraphs();
            let thread = self.thread(&config.thread);
            let input = self.input(log, &thread, run, config.clone(), answers.clone()).await?;
            let mut stream = thread.with_options(options).stream(input);
            while let Some(events) = next_batch(&mut stream).await {
                let events = events.iter().map(event_json).collect();
                for event in log.append(run, events).await? {
                    sender.send(event);
                }
            }
            match stream.finish().await {
                Err(RunError::Checkpoint(CheckpointError::Busy { .. }))
                    if Instant::now() < deadline =>
                {
                    sleep(RETRY_INTERVAL).await;
                }
                outcome => break outcome.map_err(run_error)?,
            }
        };
        match exit {
            RunOutcome::Done(state) => Ok(RunnerOutcome::Complete(values(&state))),
            _ => Ok(RunnerOutcome::Waiting),
        }
    }

    async fn state(&self, thread: &str) -> Result<Option<Value>, RunError> {
        Ok(self.thread(thread).state().await?.as_ref().map(state_json))
    }

    async fn history(&self, thread: &str, limit: usize) -> Result<Vec<Value>, RunError> {
        Ok(self.thread(thread).history(Some(limit)).await?.iter().map(state_json).collect())
    }

    async fn pending_interrupts(
        &self,
        thread: &str,
    ) -> Result<Option<(String, Vec<Interrupt>)>, RunError> {
        let state = self.thread(thread).state().await?;
        Ok(state.map(|it| (it.run.clone(), it.interrupts().into_iter().cloned().collect())))
    }

    fn check_input(&self, input: &Map<String, Value>) -> Result<(), String> {
        self.graph.update_from_json(input.clone()).map(drop).map_err(|error| error.to_string())
    }

    fn to_json(&self) -> Value {
        self.graph.to_json(1)
    }
}

/// Returns the error message that clients see for a failed run. Storage errors are written in full only to the log,
/// because they can contain the names of files and hosts.
fn run_error(error: RunError) -> RunnerError {
    match error {
        RunError::Checkpoint(CheckpointError::Storage(cause)) => {
            tracing::error!(%cause, "cannot read or write the thread of a run");
            RunnerError("cannot read or write the thread of the run; see the server log".into())
        }
        other => RunnerError(other.to_string()),
    }
}

/// Waits for an event and returns it together with all events that are already available.
async fn next_batch<S: State>(stream: &mut RunStream<S>) -> Option<Vec<Event>> {
    let mut events = vec![stream.next().await?];
    while events.len() < MAX_BATCH
        && let Some(Some(event)) = stream.next().now_or_never()
    {
        events.push(event);
    }
    Some(events)
}

fn event_json(event: &Event) -> Value {
    json!({
        "type": event.kind.mode(),
        "namespace": &*event.namespace,
        "step": event.step,
        "node": event.node.as_deref(),
        "event": event.kind,
    })
}

/// Returns the fields of a state that have been written at least once.
fn values<S: State>(state: &S) -> Value {
    let fields = state.fields().iter().enumerate().filter_map(|(idx, field)| {
        let value = state.value(idx).ok().flatten()?;
        Some((field.name.to_string(), value))
    });
    Value::Object(fields.collect())
}

fn state_json<S: State>(state: &ThreadState<S>) -> Value {
    let time = |it: SystemTime| to_millis(it);
    json!({
        "values": values(&state.values),
        "next": state.next,
        "checkpoint": state.id.to_string(),
        "parent": state.parent.map(|it| it.to_string()),
        "step": state.step,
        "run": state.run,
        "created_at_ms": time(state.created_at),
        "interrupts": state.interrupts(),
        "metadata": state.metadata,
    })
}
