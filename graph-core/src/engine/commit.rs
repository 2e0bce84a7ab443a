//! Commit: the writes of one step become the next state.
//!
//! Writes are folded in task order, never in the order in which tasks finished: a run must give the same state
//! twice.

use crate::{
    Conflict, RunError,
    checkpoint::Change,
    graph::{Graph, NodeIdx},
    node::AnyUpdate,
    state::{Delta, FieldError, FieldSet, Fold, erased::ErasedState},
};

/// The writes of one task.
pub(crate) struct Writes<'a> {
    pub(crate) node: NodeIdx,
    pub(crate) updates: &'a mut [AnyUpdate],
}

/// What a commit changed.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    /// Fields that were written.
    pub(crate) changed: FieldSet,
    /// Fields that have another value than before, or none any more.
    pub(crate) affected: FieldSet,
    /// What a checkpoint has to store.
    pub(crate) changes: Vec<(String, Change)>,
}

/// Folds the writes of a step into the state, in the order given.
///
/// `live` holds the fields of one step's life that have a value. `clears` says whether the step counts as one
/// that clears them; a command given as input does not.
pub(crate) fn commit(
    graph: &Graph,
    state: &mut dyn ErasedState,
    live: &mut FieldSet,
    tasks: &mut [Writes<'_>],
    mode: Mode,
) -> Result<Committed, RunError> {
    let mut fold = begin(state, graph, tasks, mode)?;
    for task in tasks {
        for update in task.updates.iter_mut() {
            state.fold(update, &mut fold)?;
        }
    }
    Ok(end(graph, state, live, fold, mode)?)
}

/// How a commit is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub(crate) step: i64,
    /// Whether fields of one step's life that were not written are cleared.
    pub(crate) clears: bool,
    /// Whether to gather what a checkpoint must store.
    pub(crate) records: bool,
}

/// Looks for conflicts before anything is changed.
pub(crate) fn begin(
    state: &dyn ErasedState,
    graph: &Graph,
    tasks: &[Writes<'_>],
    mode: Mode,
) -> Result<Fold, RunError> {
    let mut written = FieldSet::default();
    let mut overwritten = FieldSet::default();
    for task in tasks {
        for update in task.updates.iter() {
            let touched = state.touched(update)?;
            for field in touched.written.iter() {
                if !written.insert(field) && !state.fields()[field].many_writers {
                    return Err(conflict(state, graph, tasks, field, mode.step, false).into());
                }
            }
            for field in touched.overwritten.iter() {
                if !overwritten.insert(field) {
                    return Err(conflict(state, graph, tasks, field, mode.step, true).into());
                }
            }
        }
    }
    Ok(Fold::new(overwritten, mode.records))
}

/// Clears what lives for one step, and gathers what changed.
pub(crate) fn end(
    graph: &Graph,
    state: &mut dyn ErasedState,
    live: &mut FieldSet,
    mut fold: Fold,
    mode: Mode,
) -> Result<Committed, FieldError> {
    let mut affected = fold.folded().clone();
    if mode.clears && !live.is_empty() {
        let expired: FieldSet = live.iter().filter(|it| !fold.folded().contains(*it)).collect();
        for field in expired.iter() {
            state.clear(field);
            fold.cleared(field);
        }
        affected.union_with(&expired);
        *live = FieldSet::default();
    }
    if fold.folded().intersects(&graph.volatile) {
        live.union_with(&fold.folded().iter().filter(|it| graph.volatile.contains(*it)).collect());
    }
    let changed = fold.changed().clone();
    let changes = changes(graph, state, fold)?;
    Ok(Committed { changed, affected, changes })
}

/// The whole values of fields, as changes.
pub(crate) fn whole(
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
    let mut wholes = FieldSet::default();
    let mut parts = Vec::new();
    for (field, delta) in fold.into_changes() {
        match delta {
            Delta::Whole => drop(wholes.insert(field)),
            Delta::Part(change) => parts.push((field, change)),
        }
    }
    let mut changes = whole(graph, state, &wholes)?;
    for (field, change) in parts {
        // A whole value holds its parts already.
        if !wholes.contains(field) && !graph.untracked.contains(field) {
            changes.push((state.fields()[field].name.clone().into_owned(), change));
        }
    }
    Ok(changes)
}

#[cold]
fn conflict(
    state: &dyn ErasedState,
    graph: &Graph,
    tasks: &[Writes<'_>],
    field: usize,
    step: i64,
    overwrites: bool,
) -> Conflict {
    let writes = |update: &AnyUpdate| {
        state.touched(update).is_ok_and(|it| {
            if overwrites { it.overwritten.contains(field) } else { it.written.contains(field) }
        })
    };
    let mut writers = tasks.iter().flat_map(|task| {
        task.updates.iter().filter(|it| writes(it)).map(|_| graph.node(task.node).label.to_string())
    });
    Conflict {
        field: state.fields()[field].name.clone().into_owned(),
        first: writers.next().unwrap_or_default(),
        second: writers.next().unwrap_or_default(),
        step,
        overwrites,
    }
}
