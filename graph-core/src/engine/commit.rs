//! Commit: folds the writes of one step into the state.
//!
//! Writes are folded in task order, not in completion order, so that a run is deterministic.

use crate::{
    error::{RunError, WriteConflictError},
    graph::erased::{Graph, NodeIdx},
    state::{
        change::Change,
        erased::{AnyUpdate, ErasedState},
        field::{FieldError, FieldSet},
        fold::{Delta, Fold},
    },
};

/// The writes of one task.
pub(crate) struct TaskWrites<'a> {
    pub(crate) node: NodeIdx,
    pub(crate) updates: &'a mut [AnyUpdate],
}

/// The result of a commit.
#[derive(Debug, Default)]
pub(crate) struct CommitResult {
    /// Fields that were written, except those whose value stayed the same.
    pub(crate) changed: FieldSet,
    /// All fields that were written, and step-scoped fields that were cleared.
    pub(crate) affected: FieldSet,
    /// Changes to be stored with the next checkpoint.
    pub(crate) changes: Vec<(String, Change)>,
}

/// Folds the writes of a step into the state, in the given order.
///
/// `live` is the set of step-scoped fields that have a value. The commit updates it.
pub(crate) fn commit(
    graph: &Graph,
    state: &mut dyn ErasedState,
    live: &mut FieldSet,
    tasks: &mut [TaskWrites<'_>],
    options: CommitOptions,
) -> Result<CommitResult, RunError> {
    let mut fold = begin_fold(state, graph, tasks, options)?;
    for task in tasks {
        for update in task.updates.iter_mut() {
            state.fold(update, &mut fold)?;
        }
    }
    Ok(finish_fold(graph, state, live, fold, options)?)
}

/// Options of a commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitOptions {
    pub(crate) step: i64,
    /// Whether to clear step-scoped fields that were not written. False for input commands, because they are not a
    /// step.
    pub(crate) clear_step_scoped: bool,
    /// Whether to collect the changes for a checkpoint.
    pub(crate) collect_changes: bool,
}

/// Checks the writes for conflicts and returns an empty fold. Does not change the state.
pub(crate) fn begin_fold(
    state: &dyn ErasedState,
    graph: &Graph,
    tasks: &[TaskWrites<'_>],
    options: CommitOptions,
) -> Result<Fold, RunError> {
    let mut written = FieldSet::default();
    let mut overwritten = FieldSet::default();
    for task in tasks {
        for update in task.updates.iter() {
            let write_set = state.write_set(update)?;
            for field in write_set.written.iter() {
                if !written.insert(field) && !state.fields()[field].many_writers {
                    return Err(conflict(state, graph, tasks, field, options.step, false).into());
                }
            }
            for field in write_set.overwritten.iter() {
                if !overwritten.insert(field) {
                    return Err(conflict(state, graph, tasks, field, options.step, true).into());
                }
            }
        }
    }
    Ok(Fold::new(overwritten, options.collect_changes))
}

/// Completes a fold: clears expired step-scoped fields, if requested, and collects the changes.
pub(crate) fn finish_fold(
    graph: &Graph,
    state: &mut dyn ErasedState,
    live: &mut FieldSet,
    mut fold: Fold,
    options: CommitOptions,
) -> Result<CommitResult, FieldError> {
    let mut affected = fold.folded().clone();
    if options.clear_step_scoped && !live.is_empty() {
        let expired: FieldSet = live.iter().filter(|it| !fold.folded().contains(*it)).collect();
        for field in expired.iter() {
            state.clear(field);
            fold.record_clear(field);
        }
        affected.union_with(&expired);
        *live = FieldSet::default();
    }
    if fold.folded().intersects(&graph.step_scoped) {
        live.union_with(
            &fold.folded().iter().filter(|it| graph.step_scoped.contains(*it)).collect(),
        );
    }
    let changed = fold.changed().clone();
    let changes = changes(graph, state, fold)?;
    Ok(CommitResult { changed, affected, changes })
}

/// Returns changes that set the given fields to their current values. Untracked fields are skipped.
pub(crate) fn full_values(
    graph: &Graph,
    state: &dyn ErasedState,
    fields: &FieldSet,
) -> Result<Vec<(String, Change)>, FieldError> {
    let stored = fields.iter().filter(|it| !graph.untracked.contains(*it));
    stored
        .map(|field| {
            let change = state.value(field)?.map_or(Change::Clear, Change::Set);
            Ok((state.fields()[field].name.clone().into_owned(), change))
        })
        .collect()
}

fn changes(
    graph: &Graph,
    state: &dyn ErasedState,
    fold: Fold,
) -> Result<Vec<(String, Change)>, FieldError> {
    let mut replaced = FieldSet::default();
    let mut parts = Vec::new();
    for (field, delta) in fold.into_changes() {
        match delta {
            Delta::Whole => drop(replaced.insert(field)),
            Delta::Part(change) => parts.push((field, change)),
        }
    }
    let mut changes = full_values(graph, state, &replaced)?;
    for (field, change) in parts {
        // A full value already includes the partial changes.
        if !replaced.contains(field) && !graph.untracked.contains(field) {
            changes.push((state.fields()[field].name.clone().into_owned(), change));
        }
    }
    Ok(changes)
}

#[cold]
fn conflict(
    state: &dyn ErasedState,
    graph: &Graph,
    tasks: &[TaskWrites<'_>],
    field: usize,
    step: i64,
    overwrites: bool,
) -> WriteConflictError {
    let writes = |update: &AnyUpdate| {
        state.write_set(update).is_ok_and(|it| {
            if overwrites { it.overwritten.contains(field) } else { it.written.contains(field) }
        })
    };
    let mut writers = tasks.iter().flat_map(|task| {
        task.updates.iter().filter(|it| writes(it)).map(|_| graph.node(task.node).label.to_string())
    });
    WriteConflictError {
        field: state.fields()[field].name.clone().into_owned(),
        first: writers.next().unwrap_or_default(),
        second: writers.next().unwrap_or_default(),
        step,
        overwrites,
    }
}
