//! Sends a task to another process and interprets its outcome.

use std::sync::Arc;

use crate::{
    context::task::TaskContext,
    engine::{commit::updates_from, outcome::TaskOutput, target::stored_targets},
    error::{Halt, NodeError},
    goto::ParentCommand,
    graph::erased::{Graph, NodeIdx},
    node::erased::TaskInput,
    remote::{
        task_call::{RemoteTaskCall, RemoteTaskEnd, RemoteTaskOutcome, RemoteTaskRunner},
        task_start::{RemoteTaskInput, RemoteTaskStart},
    },
    state::{
        erased::{AnyState, ErasedState},
        field::FieldError,
    },
};

/// Runs a task in another process, including its retries and branches. Returns `None` if this process must run it.
pub(super) async fn run_in_other_process(
    (graph, node, cx): (&Graph, NodeIdx, &Arc<TaskContext>),
    runner: &dyn RemoteTaskRunner,
    input: &TaskInput,
    view: Option<&dyn ErasedState>,
) -> Result<Option<TaskOutput>, NodeError> {
    let state_values = |it: &AnyState| graph.state_values(it).map_err(NodeError::terminal);
    let input = match input {
        TaskInput::State(state) => RemoteTaskInput::State(state_values(state)?),
        TaskInput::Payload(payload) => {
            RemoteTaskInput::Payload(payload.to_json().map_err(NodeError::terminal)?)
        }
    };
    let view = view.map(|it| state_values(&it.snapshot())).transpose()?;
    let start = RemoteTaskStart::new(cx, input, view);
    let pool = graph.node(node).options.pool.clone();
    let outcome = runner.run(RemoteTaskCall { start, task: cx.clone(), pool }).await?;
    let RemoteTaskOutcome { end, took_resume_value, memory } = outcome;
    if took_resume_value {
        cx.scope.resume_values.drop_single();
    }
    if let Some(memory) = memory {
        cx.set_resume_values(memory.values, memory.discarded);
    }
    match end {
        RemoteTaskEnd::Done { writes, gotos, routed } => {
            let updates = updates_from(&*graph.initial, writes).map_err(NodeError::terminal)?;
            let targets = stored_targets(graph, gotos);
            Ok(Some(TaskOutput { targets, routed, ..TaskOutput::new(node, updates) }))
        }
        RemoteTaskEnd::Interrupted(interrupts) => Err(cx.raise_interrupts(interrupts)),
        RemoteTaskEnd::Failed(failure) => Err(failure.into_node_error()),
        RemoteTaskEnd::ParentCommand => {
            Err(NodeError::halted(Halt::ParentCommand(Box::new(ParentCommand {
                updates: Default::default(),
                gotos: Default::default(),
                to_writes: |_| Err(FieldError::new("*", "the graph has no parent")),
            }))))
        }
        RemoteTaskEnd::NeedsHost => Ok(None),
    }
}
