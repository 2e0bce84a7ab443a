//! Registered graphs. Only this module knows their state types.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use futures_util::{FutureExt, future::BoxFuture};
use graph_core::{
    CompiledGraph, Event, Input, NodeError, RunControl, RunError, RunOutcome, RunStream, State,
    StopReason, Thread, ThreadState,
    checkpoint::{CheckpointId, Source},
    remote::{RemoteTaskHost, RemoteTaskRun, RemoteTaskRunner, RemoteTaskStart},
};
use serde_json::{Map, Value};

use crate::{
    event_sink::EventSink,
    leg_end::LegEnd,
    limits::MAX_BATCH,
    run::{RunResult, StartRun},
    run_status::RunStatus,
};

/// One execution of a leg.
pub(crate) struct LegRequest<'a> {
    pub(crate) run: &'a StartRun,
    pub(crate) leg: i32,
    /// Whether a worker has claimed the run before.
    pub(crate) is_repeated: bool,
    /// The newest checkpoint of the thread when the last leg ended, if it belongs to an earlier run.
    pub(crate) head: Option<CheckpointId>,
    pub(crate) answers: &'a BTreeMap<String, Value>,
    pub(crate) control: RunControl,
    /// Hands tasks to other workers.
    pub(crate) tasks: Arc<dyn RemoteTaskRunner>,
}

/// A graph whose state type is erased.
#[async_trait]
pub(crate) trait AnyGraph: Send + Sync {
    /// Executes a leg of a run from the last checkpoint of its thread.
    async fn execute(
        &self,
        request: LegRequest<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<LegEnd, RunError>;

    /// Starts a task of a run that another worker may hold. `context` is the context of the run.
    async fn start_task(
        &self,
        context: Value,
        start: RemoteTaskStart,
        host: RemoteTaskHost,
    ) -> Result<RemoteTaskRun, NodeError>;

    /// Returns the nodes that are bound to a pool but can only run on the worker that executes their run.
    fn immovable_pool_nodes(&self) -> Vec<String>;
}

/// Creates the dependencies of nodes from the context of a run.
pub(crate) type DepsFactory<C> =
    dyn Fn(Value) -> BoxFuture<'static, Result<C, NodeError>> + Send + Sync;

pub(crate) struct TypedGraph<S: State, C> {
    pub(crate) graph: CompiledGraph<S, C>,
    pub(crate) deps: Box<DepsFactory<C>>,
}

#[async_trait]
impl<S: State, C: Send + Sync + 'static> AnyGraph for TypedGraph<S, C> {
    async fn execute(
        &self,
        request: LegRequest<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<LegEnd, RunError> {
        let run = request.run;
        let deps = match (self.deps)(run.context.clone()).await {
            Ok(deps) => deps,
            Err(error) => return Ok(LegEnd::failed(no_deps(&error))),
        };
        let newest = self.graph.thread(&run.thread, deps);
        let mut thread = newest.clone();
        let state = newest.state().await?;
        let is_current = |it: &ThreadState<S>| it.run == run.id || Some(it.id) == request.head;
        let input = match state.filter(is_current) {
            Some(state) => {
                // Answers that an earlier execution of this leg has used are no longer pending.
                let pending = state.interrupts().into_iter().filter_map(|it| {
                    request.answers.get(&it.id).map(|answer| (it.id.clone(), answer.clone()))
                });
                let answers: Vec<_> = pending.collect();
                // The checkpoint of a fork contains the update and the targets of the command, but not its resume
                // value.
                let is_fork = request.leg == 0 && state.source == Source::Fork;
                let is_unanswered = is_fork && state.interrupts().is_empty();
                let resume = run.command.as_ref().and_then(|it| it.resume.as_ref());
                match resume.filter(|_| is_unanswered) {
                    Some(value) => Input::resume(value)?,
                    None if answers.is_empty() => Input::proceed(),
                    None => Input::resume_by_id(answers),
                }
            }
            None if request.leg > 0 => return Ok(superseded(run)),
            None => {
                thread = run.checkpoint.map_or(thread, |it| newest.at(it));
                self.first_input(&request, &thread).await?
            }
        };
        let options = thread.options().clone().run_id(&run.id).control(request.control.clone());
        let options = run.settings.apply(options);
        let options = options.stream_modes(run.stream_modes.clone()).subgraphs();
        let options = options.task_runner(request.tasks);
        let mut stream = thread.with_options(options).stream(input);
        while let Some(events) = next_batch(&mut stream).await {
            if let Err(end) = sink.store(events).await {
                // Dropping the stream cancels the run.
                return Ok(end);
            }
        }
        let outcome = stream.finish().await?;
        // A run with a command can be interrupted before it stores a checkpoint of its own. The newest checkpoint then
        // shows whether the thread has changed before the run is resumed.
        let head = match run.command {
            Some(_) if !outcome.is_done() => newest.state().await?.map(|it| it.id),
            _ => None,
        };
        let result = RunResult {
            values: values(outcome.state()),
            interrupts: outcome.interrupts().to_vec(),
            head,
            ..RunResult::default()
        };
        Ok(match outcome {
            RunOutcome::Done(_) => LegEnd::Ended(RunStatus::Done, result),
            RunOutcome::Interrupted { .. } => LegEnd::Ended(RunStatus::Interrupted, result),
            RunOutcome::Stopped { reason: StopReason::Drained, .. } => LegEnd::Drained,
            _ => LegEnd::Ended(RunStatus::Stopped, result),
        })
    }

    async fn start_task(
        &self,
        context: Value,
        start: RemoteTaskStart,
        host: RemoteTaskHost,
    ) -> Result<RemoteTaskRun, NodeError> {
        let deps = (self.deps)(context).await;
        let deps = deps.map_err(|it| NodeError::terminal(no_deps(&it)))?;
        Ok(self.graph.run_remote_task(start, deps, host))
    }

    fn immovable_pool_nodes(&self) -> Vec<String> {
        self.graph.immovable_pool_nodes()
    }
}

impl<S: State, C: Send + Sync + 'static> TypedGraph<S, C> {
    /// Returns the input of a run that has stored no checkpoint. The engine applies the input once per run id. The same
    /// holds for the command's update, its targets and its answer without an interrupt id, so repeating the input after
    /// a crash is safe.
    async fn first_input(
        &self,
        request: &LegRequest<'_>,
        thread: &Thread<S, C>,
    ) -> Result<Input<S>, RunError> {
        let run = request.run;
        let Some(command) = &run.command else {
            return Ok(Input::update(self.graph.update_from_json(run.input.clone())?));
        };
        let mut answers = command.answers.clone();
        if request.is_repeated && !answers.is_empty() {
            // Answers that an earlier execution has used are no longer pending.
            let state = thread.state().await?;
            let pending: Vec<_> = state.iter().flat_map(ThreadState::interrupts).collect();
            answers.retain(|id, _| pending.iter().any(|it| it.id == *id));
        }
        command.to_input(&self.graph, answers)
    }
}

fn no_deps(error: &NodeError) -> String {
    format!("cannot create the dependencies of the nodes: {error}")
}

/// Returns the end of a resumed leg whose thread no longer belongs to the run.
fn superseded(run: &StartRun) -> LegEnd {
    LegEnd::failed(format!(
        "cannot resume run `{}`: thread `{}` has changed since the run ended, or the run never stored a checkpoint; \
         start a new run",
        run.id, run.thread
    ))
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

/// Returns the fields of a state that have a value.
fn values<S: State>(state: &S) -> Map<String, Value> {
    let value = |(index, field): (usize, &graph_core::state::Field)| {
        Some((field.name.to_string(), state.value(index).ok().flatten()?))
    };
    state.fields().iter().enumerate().filter_map(value).collect()
}
