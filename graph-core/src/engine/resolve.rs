//! Resolve: converts the input of a run on a thread that has a checkpoint, so that the input of a repeated run is not
//! applied again.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    checkpoint::{
        error::CheckpointError,
        query::HistoryQuery,
        record::TaskEvent,
        saver::Checkpointer,
        stored::{Checkpoint, Source},
    },
    engine::{
        input::{CommandInput, Resume, RunInput},
        records::Records,
    },
    error::RunError,
    graph::erased::Graph,
    state::field::{Field, FieldWrite, Lifetime},
};

/// An earlier run of the thread with the same id.
struct EarlierRun {
    /// The input that the run started with, or `None` if it was not stored.
    input: Option<Vec<FieldWrite>>,
}

/// Looks for a run with this id on the thread. The caller holds the thread's lease, so the result stays valid.
async fn earlier_run(
    graph: &Graph,
    saver: &Arc<dyn Checkpointer>,
    thread: &str,
    run: Option<&str>,
) -> Result<Option<EarlierRun>, CheckpointError> {
    let Some(run) = run else { return Ok(None) };
    let query = |source| HistoryQuery {
        run: Some(run.to_owned()),
        source: Some(source),
        limit: Some(1),
        ..HistoryQuery::new(thread, "")
    };
    if let Some(mut checkpoint) = saver.list(&query(Source::Input)).await?.pop() {
        graph.migrate(&mut checkpoint)?;
        return Ok(Some(EarlierRun { input: checkpoint.frontier.input.map(|it| it.writes) }));
    }
    // With exit durability, only the run's last checkpoint is stored.
    let is_started = !saver.list(&query(Source::Loop)).await?.is_empty();
    Ok(is_started.then_some(EarlierRun { input: None }))
}

/// Converts the input of a run on a thread that has a checkpoint: a whole state must not reset the thread's fields, the
/// input of a run that has already started is not applied again, and input for a new thread is dropped.
///
/// `run` is `None` if the caller has not chosen the id of the run. No earlier run has a generated id.
pub(super) async fn resolve_input(
    input: RunInput,
    graph: &Graph,
    saver: &Arc<dyn Checkpointer>,
    checkpoint: &Checkpoint,
    run: Option<&str>,
) -> Result<RunInput, RunError> {
    let thread = &checkpoint.key.thread;
    let (update, is_whole) = match input {
        RunInput::WholeState(update) => (update, true),
        RunInput::Fresh(update) => (update, false),
        RunInput::StartOrContinue(_, Some(resume)) => {
            // The value is dropped in two cases. If no interrupt is pending, it must not answer an interrupt that this
            // run raises later. If a run with this id has already started, that run has used the value or ignored it.
            if !is_interrupted(checkpoint)
                || earlier_run(graph, saver, thread, run).await?.is_some()
            {
                return Ok(RunInput::Continue);
            }
            let command = CommandInput { resume: Some(resume), ..CommandInput::default() };
            return Ok(resolve_command(command, checkpoint, run));
        }
        RunInput::Command(command) => return Ok(resolve_command(command, checkpoint, run)),
        input => return Ok(input),
    };
    if let Some(earlier) = earlier_run(graph, saver, thread, run).await? {
        let mut writes = graph.initial.writes(&update)?;
        graph.strip_untracked(&mut writes);
        return match earlier.input.is_none_or(|it| it == writes) {
            true => Ok(RunInput::Continue),
            false => Err(RunError::RunIdReused {
                run: run.unwrap_or_default().to_owned(),
                thread: thread.clone(),
            }),
        };
    }
    let resets = |it: &&Field| it.input && !it.many_writers && it.lifetime == Lifetime::Persistent;
    let fields = graph.initial.fields().iter().filter(resets);
    let fields: Vec<_> = fields.map(|it| it.name.to_string()).collect();
    if is_whole && !fields.is_empty() {
        return Err(RunError::ThreadHasState { thread: thread.clone(), fields });
    }
    Ok(RunInput::Fresh(update))
}

fn is_interrupted(checkpoint: &Checkpoint) -> bool {
    Records::new(checkpoint.records.clone()).pending_interrupts().next().is_some()
}

/// Converts a command. If the run has already recorded the command at the checkpoint, the engine applies the recorded
/// command, so only the answer is kept. An answer without an interrupt id is dropped if the run has already used it.
fn resolve_command(command: CommandInput, checkpoint: &Checkpoint, run: Option<&str>) -> RunInput {
    let records = || Records::new(checkpoint.records.clone());
    let Some(recorded) = recorded_command(checkpoint, run) else {
        let is_single = matches!(command.resume, Some(Resume::Single(_)));
        let pending = (is_single && run.is_some())
            .then(|| records().pending_interrupts().map(|it| it.id.clone()).collect());
        return RunInput::Command(CommandInput { pending, ..command });
    };
    let resume = match (command.resume, recorded) {
        (Some(Resume::Single(value)), Some(known)) => unused_answer(value, known, &records()),
        (resume, _) => resume,
    };
    match resume {
        None => RunInput::Continue,
        resume => RunInput::Command(CommandInput { resume, ..CommandInput::default() }),
    }
}

/// Returns the ids of the interrupts that were pending when the run recorded a command at the checkpoint. The outer
/// `None` means that the run has recorded no command, and the inner `None` that no interrupts are recorded with it.
fn recorded_command<'a>(
    checkpoint: &'a Checkpoint,
    run: Option<&str>,
) -> Option<Option<&'a [String]>> {
    checkpoint.records.iter().find_map(|it| match &it.event {
        TaskEvent::Command { run: recorded, pending, .. } if run == Some(recorded.as_str()) => {
            Some(pending.as_deref())
        }
        _ => None,
    })
}

/// Returns whether the input is an answer without an interrupt id that the run has recorded at the checkpoint. The
/// checkpoint was then the thread's newest one, because a time-travel run records nothing.
pub(super) fn repeats_answer(input: &RunInput, checkpoint: &Checkpoint, run: Option<&str>) -> bool {
    let resume = match input {
        RunInput::Command(command) => &command.resume,
        RunInput::StartOrContinue(_, resume) => resume,
        _ => return false,
    };
    let is_recorded = matches!(recorded_command(checkpoint, run), Some(Some(_)));
    is_recorded && matches!(resume, Some(Resume::Single(_)))
}

/// Returns the answer of a repeated run, unless the run has used it. `known` are the interrupts that were pending when
/// the run started.
///
/// If no interrupt was pending, the first interrupt of the step takes the answer. The answer then counts as unused only
/// if no task of the step has finished, waits for an answer or has received one. This rule can drop an unused answer;
/// the interrupt is then raised again. The use of an answer in a subgraph is not detected if the subgraph failed, or if
/// the process ended before the subgraph's task did.
fn unused_answer(value: Value, known: &[String], records: &Records) -> Option<Resume> {
    let is_pending = |id: &String| records.pending_interrupts().any(|it| it.id == *id);
    let is_untouched =
        || records.tasks.values().all(|it| it.done.is_none() && it.resume_values.is_empty());
    match known {
        // The id prevents a subgraph that may have used the answer already from using the answer for its next
        // interrupt.
        [id] => is_pending(id).then(|| Resume::ById([(id.clone(), value)].into())),
        _ => {
            let is_unused = records.pending_interrupts().next().is_none() && is_untouched();
            is_unused.then_some(Resume::Single(value))
        }
    }
}
