//! Runs a graph for the host.

use std::time::Duration;

use async_trait::async_trait;
use graph_core::{
    BuildError, CompiledGraph, Event, Input, RunError, RunOptions, RunOutcome, State, StopReason,
    remote::{RemoteOutcome, RemoteStart},
};
use serde_json::{Map, Value};
use tokio::task::JoinSet;

use super::Host;
use crate::protocol::message::{
    Fault, FaultCode, GraphEvent, GraphInput, GraphOutcome, GraphStart,
};

/// A graph that the host can run, with its state and dependency types erased.
#[async_trait]
pub(super) trait GraphRunner: Send + Sync {
    async fn run(&self, start: GraphStart, host: Host) -> Result<GraphOutcome, Fault>;

    /// Runs the graph as a subgraph of the host's run.
    async fn run_subgraph(&self, start: RemoteStart, host: Host) -> Result<RemoteOutcome, Fault>;
}

/// Interval at which a subgraph reports its progress, if a node that encloses it has an idle timeout.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(100);

/// Builds a new graph for each run.
pub(super) struct GraphFactory<B> {
    pub(super) build: B,
}

#[async_trait]
impl<S, C, B> GraphRunner for GraphFactory<B>
where
    S: State,
    C: Send + Sync + 'static,
    B: Fn(&Host) -> Result<(CompiledGraph<S, C>, C), BuildError> + Send + Sync,
{
    async fn run(&self, start: GraphStart, host: Host) -> Result<GraphOutcome, Fault> {
        let terminal = |error: &dyn std::fmt::Display| Fault::new(FaultCode::Terminal, error);
        let (graph, deps) = (self.build)(&host).map_err(|error| terminal(&error))?;
        let input = input(&graph, start.input.clone())?;
        let mut thread = graph.thread(&start.thread, deps).with_options(options(&start));
        if let Some(at) = start.at {
            thread = thread.at(at);
        }
        let mut flush_requests = host.flush_requests();
        let mut events = thread.stream(input);
        loop {
            tokio::select! {
                // The order matters: a flush request must be acknowledged only when no event is pending.
                biased;
                event = events.next() => match event {
                    Some(event) => host.send_event(&graph_event(event)).await?,
                    None => break,
                },
                Some(ack) = flush_requests.recv() => drop(ack.send(())),
            }
        }
        drop(flush_requests);
        outcome(events.finish().await)
    }

    async fn run_subgraph(&self, start: RemoteStart, host: Host) -> Result<RemoteOutcome, Fault> {
        let built = (self.build)(&host);
        let (graph, deps) = built.map_err(|error| Fault::new(FaultCode::Terminal, error))?;
        let tracks_heartbeats = start.tracks_heartbeats();
        let mut run = graph.run_remote(start, deps, host.parent());
        let mut flush_requests = host.flush_requests();
        let mut interval = tokio::time::interval(HEARTBEAT_INTERVAL);
        let (mut reported, mut reports) = (None, JoinSet::new());
        loop {
            tokio::select! {
                // The order matters: a flush request must be acknowledged only when no event is pending.
                biased;
                event = run.next() => match event {
                    Some(event) => host.send_event(&graph_event(event)).await?,
                    None => break,
                },
                Some(ack) = flush_requests.recv() => drop(ack.send(())),
                Some(_) = reports.join_next() => {}
                _ = interval.tick(), if tracks_heartbeats && reports.is_empty() => {
                    let last = run.last_heartbeat();
                    if last > reported {
                        reported = last;
                        // Use a separate task, because a host call waits for this loop to acknowledge its flush
                        // request.
                        let host = host.clone();
                        reports.spawn(async move { host.heartbeat().await });
                    }
                }
            }
        }
        drop(flush_requests);
        Ok(run.finish().await)
    }
}

fn input<S: State, C: Send + Sync + 'static>(
    graph: &CompiledGraph<S, C>,
    input: GraphInput,
) -> Result<Input<S>, Fault> {
    let refused = |error: &dyn std::fmt::Display| Fault::new(FaultCode::Refused, error);
    Ok(match input {
        GraphInput::Fields(fields) => {
            Input::update(graph.update_from_json(fields).map_err(|error| refused(&error))?)
        }
        GraphInput::Nothing => Input::proceed(),
        GraphInput::Resume(value) => Input::resume(value).map_err(|error| refused(&error))?,
        GraphInput::ResumeById(values) => Input::resume_by_id(values),
    })
}

fn options(start: &GraphStart) -> RunOptions {
    let mut options = RunOptions::new()
        .run_id(&start.run)
        .stream_modes(start.modes.iter().copied())
        .durability(start.durability);
    if start.subgraphs {
        options = options.subgraphs();
    }
    if let Some(steps) = start.steps {
        options = options.step_limit(steps);
    }
    if let Some(tasks) = start.concurrency {
        options = options.max_concurrency(tasks);
    }
    for (key, value) in &start.config {
        options = options.config(key, value.clone());
    }
    for (key, value) in &start.metadata {
        options = options.metadata(key, value.clone());
    }
    options
}

fn graph_event(event: Event) -> GraphEvent {
    GraphEvent {
        namespace: event.namespace.to_string(),
        step: event.step,
        task: event.task,
        node: event.node.map(|it| it.to_string()),
        handled_task: event.handled_task,
        parent_task: event.parent_task,
        kind: event.kind,
    }
}

fn outcome<S: State>(exit: Result<RunOutcome<S>, RunError>) -> Result<GraphOutcome, Fault> {
    Ok(match exit {
        Ok(RunOutcome::Done(state)) => GraphOutcome::Done(state_json(&state)?),
        Ok(RunOutcome::Interrupted { state, interrupts }) => {
            GraphOutcome::Interrupted(state_json(&state)?, interrupts)
        }
        Ok(RunOutcome::Stopped { state, reason }) => {
            GraphOutcome::Stopped(state_json(&state)?, reason)
        }
        Ok(exit) => GraphOutcome::Stopped(state_json(exit.state())?, StopReason::Drained),
        Err(error) => {
            let terminal = matches!(error, RunError::Node { terminal: true, .. });
            GraphOutcome::Failed { error: error.to_string(), terminal }
        }
    })
}

fn state_json(state: &impl State) -> Result<Value, Fault> {
    let mut object = Map::new();
    for (index, field) in state.fields().iter().enumerate() {
        let value = state.value(index).map_err(|error| Fault::new(FaultCode::Terminal, error))?;
        object.extend(value.map(|it| (field.name.clone().into_owned(), it)));
    }
    Ok(Value::Object(object))
}
