//! Runs a subgraph in another process, and converts its outcome.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{
    checkpoint::record::GotoRecord,
    context::{
        resume::Replay,
        task::{TaskContext, interrupt_id},
    },
    engine::{
        input::{CommandInput, RunInput},
        outcome::GraphOutcome,
    },
    error::{Halt, NodeError},
    goto::{Goto, ParentCommand},
    graph::erased::{Graph, Subgraph},
    interrupt::{Interrupt, StopReason},
    namespace::belongs_to,
    remote::{
        call::{ForeignNamespaceError, RemoteCall, RemoteRunner},
        outcome::{RemoteEnd, RemoteOutcome},
        start::RemoteInput,
    },
    state::field::FieldError,
};

/// Runs a subgraph in another process within a task.
pub(crate) async fn run(
    task: &Arc<TaskContext>,
    inner: &Subgraph,
    runner: &Arc<dyn RemoteRunner>,
    namespace: String,
    input: RunInput,
) -> Result<GraphOutcome, NodeError> {
    let input = remote_input(&inner.graph, &input)?;
    let call = RemoteCall::new(task, namespace.clone(), inner.persistence, input);
    let has_resume_value = call.start().resume_value.is_some();
    let answers_own_interrupt = call.start().answered_interrupt.is_some();
    let RemoteOutcome { end, took_resume_value, visited } = runner.run(call).await?;
    let scope = &task.scope;
    // The outcome is not trusted: it must not affect other subgraphs of the run.
    let is_answered = answers_own_interrupt && !matches!(end, RemoteEnd::Failed(_));
    if is_answered || (has_resume_value && took_resume_value) {
        scope.resume_values.drop_single();
    }
    if let Some(replay) = &scope.replay {
        let own = Replay::stable(&namespace);
        let is_own = |it: &String| it == own || belongs_to(it, &namespace);
        replay.add_visited(visited.into_iter().filter(is_own));
    }
    let halt = match end {
        RemoteEnd::Done { state, has_output } => {
            let mut values = inner.graph.initial.fork();
            values.load(state).map_err(NodeError::terminal)?;
            return Ok(GraphOutcome { halt: None, state: values.snapshot(), has_output });
        }
        RemoteEnd::Interrupted(_) | RemoteEnd::Stopped(StopReason::Before | StopReason::After)
            if !runner.allows_interrupts() =>
        {
            let problem = "the process that runs the subgraph interrupted or stopped it, which is \
                           not allowed for this subgraph; to allow it, remove \
                           `SandboxOptions::deny_interrupts`, or return true from \
                           `RemoteRunner::allows_interrupts` in your own runner";
            return Err(NodeError::terminal(problem));
        }
        RemoteEnd::Interrupted(interrupts) => {
            check_interrupts(&interrupts, &namespace).await?;
            Halt::Interrupted(interrupts)
        }
        RemoteEnd::Stopped(StopReason::Drained) if !scope.control.is_draining() => {
            let problem = "the process that runs the subgraph stopped it, although the run is not \
                           being drained";
            return Err(NodeError::terminal(problem));
        }
        RemoteEnd::Stopped(reason) => Halt::Stopped(reason),
        RemoteEnd::ParentCommand { .. } if !runner.allows_parent_commands() => {
            let problem = "the subgraph in another process sent a command to its parent graph, \
                           which could write any field and start any node; to allow this, use \
                           `SandboxOptions::allow_parent_commands`, or \
                           `RemoteRunner::allows_parent_commands` in your own runner";
            return Err(NodeError::terminal(problem));
        }
        RemoteEnd::ParentCommand { updates, gotos } => {
            let update = |writes| (scope.update_from)(&*scope.initial, writes);
            let updates = updates.into_iter().map(update).collect::<Result<SmallVec<_>, _>>();
            Halt::ParentCommand(Box::new(ParentCommand {
                updates: updates.map_err(NodeError::terminal)?,
                gotos: gotos.into_iter().map(goto).collect(),
                // The command has arrived in the process of the parent.
                to_writes: |_| Err(FieldError::new("*", "the command was already delivered")),
            }))
        }
        RemoteEnd::Failed(failure) => return Err(failure.into_node_error()),
    };
    let state = inner.graph.initial.snapshot();
    Ok(GraphOutcome { halt: Some(halt), state, has_output: false })
}

/// Maximum number of interrupts that a task in another process can raise, or that a subgraph can raise at once.
const MAX_INTERRUPTS: usize = 1000;

/// Maximum length of the namespace of an interrupt that another process raises, in bytes.
const MAX_NAMESPACE_BYTES: usize = 4096;

/// Checks the interrupts that a subgraph in another process raised.
async fn check_interrupts(interrupts: &[Interrupt], namespace: &str) -> Result<(), NodeError> {
    if !(1..=MAX_INTERRUPTS).contains(&interrupts.len()) {
        let problem = format!(
            "the process that runs the subgraph raised {} interrupts at once; the number must be \
             between 1 and {MAX_INTERRUPTS}",
            interrupts.len()
        );
        return Err(NodeError::terminal(problem));
    }
    for interrupt in interrupts {
        if interrupt.namespace.len() > MAX_NAMESPACE_BYTES {
            let problem = format!(
                "the process that runs the subgraph raised an interrupt with a namespace of {} \
                 bytes; at most {MAX_NAMESPACE_BYTES} are allowed",
                interrupt.namespace.len()
            );
            return Err(NodeError::terminal(problem));
        }
        if !belongs_to(&interrupt.namespace, namespace) || !has_own_id(interrupt) {
            return Err(NodeError::terminal(ForeignNamespaceError));
        }
        // Checking many long namespaces takes long, so other tasks must get a chance to run in between.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Returns whether the id of an interrupt belongs to its namespace. Otherwise it could be the id of another interrupt,
/// and the process would receive the answer to that one.
fn has_own_id(interrupt: &Interrupt) -> bool {
    (0..MAX_INTERRUPTS).any(|it| interrupt_id(&interrupt.namespace, it) == interrupt.id)
}

fn remote_input(graph: &Graph, input: &RunInput) -> Result<RemoteInput, NodeError> {
    let writes = |update| graph.initial.writes(update).map_err(NodeError::terminal);
    Ok(match input {
        RunInput::Fresh(update)
        | RunInput::WholeState(update)
        | RunInput::StartOrContinue(update, _) => RemoteInput::Fresh(writes(update)?),
        RunInput::Continue => RemoteInput::Continue,
        RunInput::Command(CommandInput { update, gotos, .. }) => RemoteInput::Command {
            writes: update.as_ref().map(writes).transpose()?,
            gotos: goto_records(gotos)?,
        },
    })
}

/// Converts gotos to the form in which they are sent to another process.
pub(super) fn goto_records<'a>(
    gotos: impl IntoIterator<Item = &'a Goto>,
) -> Result<Vec<GotoRecord>, NodeError> {
    let record = |goto: &Goto| {
        let payload = goto.payload.as_ref().map(|it| it.to_json()).transpose();
        Ok(GotoRecord { to: goto.to.to_string(), payload: payload.map_err(NodeError::terminal)? })
    };
    gotos.into_iter().map(record).collect()
}

/// Converts a goto that was received from another process.
pub(super) fn goto(record: GotoRecord) -> Goto {
    match record.payload {
        Some(payload) => Goto::send(record.to, payload),
        None => Goto::node(record.to),
    }
}
