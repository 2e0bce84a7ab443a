//! Runs a task that another process has sent.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    context::task::TaskContext,
    engine::{
        execute::{Task, run_with_retries, task_outcome},
        outcome::{TaskOutcome, TaskOutput},
        target::goto_records,
    },
    error::{Halt, RunError},
    goto::Payload,
    graph::erased::Graph,
    node::erased::TaskInput,
    remote::{task_call::RemoteTaskEnd, task_start::RemoteTaskInput},
    spans,
    state::{erased::ErasedState, field::FieldError},
};

/// Runs a task for a run in another process.
pub(crate) async fn run_for_host(
    graph: Arc<Graph>,
    cx: &Arc<TaskContext>,
    input: RemoteTaskInput,
    view: Option<Map<String, Value>>,
) -> RemoteTaskEnd {
    let span = spans::task(cx.node(), cx.step.number, || cx.id());
    let end = spans::instrument(span, run_received(&graph, cx, input, view)).await;
    match &cx.scope.host {
        Some(host) if host.needs_host() => RemoteTaskEnd::NeedsHost,
        _ => end.unwrap_or_else(|error| RemoteTaskEnd::Failed(error.into())),
    }
}

async fn run_received(
    graph: &Arc<Graph>,
    cx: &Arc<TaskContext>,
    input: RemoteTaskInput,
    view: Option<Map<String, Value>>,
) -> Result<RemoteTaskEnd, RunError> {
    let node = graph.find(cx.node()).filter(|it| graph.node(*it).body.is_some());
    let node = node.ok_or_else(|| {
        RunError::InvalidUpdate(format!(
            "graph `{}` of this process has no node `{}`; run the same version of the graph in all processes",
            graph.name,
            cx.node()
        ))
    })?;
    let input = match input {
        RemoteTaskInput::State(values) => TaskInput::State(state(graph, values)?.snapshot()),
        RemoteTaskInput::Payload(payload) => TaskInput::Payload(Payload::Json(Arc::new(payload))),
    };
    let view = view.map(|it| state(graph, it)).transpose()?;
    let task = Task { graph, node, cx };
    match task_outcome(cx, run_with_retries(task, &input, view.as_deref()).await) {
        TaskOutcome::Done(TaskOutput { updates, targets, routed, .. }) => {
            let mut writes = Vec::new();
            for update in &updates {
                writes.extend(graph.initial.writes(update)?);
            }
            Ok(RemoteTaskEnd::Done { writes, gotos: goto_records(graph, &targets)?, routed })
        }
        TaskOutcome::Failed(error) => Err(*error),
        TaskOutcome::Halted(Halt::Interrupted(interrupts)) => {
            Ok(RemoteTaskEnd::Interrupted(interrupts))
        }
        TaskOutcome::Halted(Halt::ParentCommand(_)) => Ok(RemoteTaskEnd::ParentCommand),
        // Only a subgraph can stop. The process of the run must execute the task itself.
        TaskOutcome::Halted(Halt::Stopped(_)) => Ok(RemoteTaskEnd::NeedsHost),
    }
}

/// Returns a state with these values. Other fields have no value.
fn state(graph: &Graph, values: Map<String, Value>) -> Result<Box<dyn ErasedState>, FieldError> {
    let mut state = graph.initial.fork();
    let is_missing = |index: &usize| !values.contains_key(&*state.fields()[*index].name);
    let missing: Vec<_> = (0..state.fields().len()).filter(is_missing).collect();
    missing.into_iter().for_each(|it| state.clear(it));
    state.load(values)?;
    Ok(state)
}
