//! Commit: folds the writes of one step into the state.
//!
//! Writes are folded in task order, not in completion order, so that a run is deterministic.

use smallvec::SmallVec;

use crate::{
    checkpoint::{error::CheckpointError, stored::Checkpoint},
    engine::outcome::TaskOutput,
    error::{RunError, WriteConflictError},
    graph::erased::Graph,
    state::{
        change::Change,
        erased::{AnyUpdate, ErasedState},
        field::{FieldError, FieldSet, FieldWrite},
        fold::{Delta, Fold},
    },
};

/// The state of a running graph.
pub(super) struct GraphState {
    pub(super) values: Box<dyn ErasedState>,
    /// Step-scoped fields that currently have a value.
    pub(super) live: FieldSet,
}

/// Options of a commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommitOptions {
    /// Number of the step, for error messages.
    pub(super) step: i64,
    /// Whether to clear step-scoped fields that were not written. False for input commands, because they are not a
    /// step.
    pub(super) clear_step_scoped: bool,
    /// Whether to collect the changes for a checkpoint.
    pub(super) collect_changes: bool,
}

/// The changes that a commit made to the state.
#[derive(Debug, Default)]
pub(super) struct Committed {
    /// Fields that were written, except those whose value stayed the same.
    pub(super) changed: FieldSet,
    /// All fields that were written, and step-scoped fields that were cleared.
    pub(super) affected: FieldSet,
    /// Changes to be stored with the next checkpoint.
    pub(super) changes: Vec<(String, Change)>,
}

impl GraphState {
    /// Returns the initial state of the graph.
    pub(super) fn initial(graph: &Graph) -> Self {
        Self { values: graph.initial.fork(), live: FieldSet::default() }
    }

    /// Decodes the state of a checkpoint.
    pub(super) fn load(graph: &Graph, checkpoint: &Checkpoint) -> Result<Self, CheckpointError> {
        let mut values = graph.initial.fork();
        let present = |field: usize| checkpoint.values.contains_key(&*values.fields()[field].name);
        let live = graph.step_scoped.iter().filter(|it| present(*it)).collect();
        values
            .load(checkpoint.values.clone())
            .map_err(|error| CheckpointError::corrupt(&checkpoint.key, &error))?;
        Ok(Self { values, live })
    }

    /// Returns a copy. The values are shared until one of the copies changes.
    pub(super) fn fork(&self) -> Self {
        Self { values: self.values.fork(), live: self.live.clone() }
    }

    /// Folds the updates of the tasks into the state, in the given order. The updates are left empty.
    pub(super) fn commit<'a>(
        &mut self,
        graph: &Graph,
        tasks: impl IntoIterator<Item = &'a mut TaskOutput>,
        options: CommitOptions,
    ) -> Result<Committed, RunError> {
        let mut fold = self.fold(graph, tasks, options)?;
        let mut affected = fold.folded().clone();
        if options.clear_step_scoped && !self.live.is_empty() {
            affected.union_with(&self.clear_expired(&mut fold));
        }
        let changed = fold.changed().clone();
        let changes = self.changes(graph, fold)?;
        Ok(Committed { changed, affected, changes })
    }

    /// Folds the updates but does not clear step-scoped fields. This is the first part of [`commit`](Self::commit).
    #[inline]
    pub(super) fn fold<'a>(
        &mut self,
        graph: &Graph,
        tasks: impl IntoIterator<Item = &'a mut TaskOutput>,
        options: CommitOptions,
    ) -> Result<Fold, RunError> {
        let mut tasks: SmallVec<[_; 1]> = tasks.into_iter().collect();
        let overwritten = match &tasks[..] {
            // A single update writes each field at most once, so it cannot conflict.
            [only] if only.updates.len() <= 1 => FieldSet::default(),
            tasks => self.check_conflicts(graph, tasks, options.step)?,
        };
        let mut fold = Fold::new(overwritten, options.collect_changes);
        for task in &mut tasks {
            for update in &mut task.updates {
                self.values.fold(update, &mut fold)?;
            }
        }
        if fold.folded().intersects(&graph.step_scoped) {
            let written = fold.folded().iter().filter(|it| graph.step_scoped.contains(*it));
            self.live.union_with(&written.collect());
        }
        Ok(fold)
    }

    /// Returns the fields that the tasks overwrite, or an error if two updates write or overwrite the same field.
    fn check_conflicts(
        &self,
        graph: &Graph,
        tasks: &[&mut TaskOutput],
        step: i64,
    ) -> Result<FieldSet, RunError> {
        let mut written = FieldSet::default();
        let mut overwritten = FieldSet::default();
        for task in tasks {
            for update in &task.updates {
                let write_set = self.values.write_set(update)?;
                for field in write_set.written.iter() {
                    if !written.insert(field) && !self.values.fields()[field].many_writers {
                        return Err(self.conflict(graph, tasks, field, step, false).into());
                    }
                }
                for field in write_set.overwritten.iter() {
                    if !overwritten.insert(field) {
                        return Err(self.conflict(graph, tasks, field, step, true).into());
                    }
                }
            }
        }
        Ok(overwritten)
    }

    #[cold]
    fn conflict(
        &self,
        graph: &Graph,
        tasks: &[&mut TaskOutput],
        field: usize,
        step: i64,
        overwrites: bool,
    ) -> WriteConflictError {
        let writes = |update: &AnyUpdate| {
            self.values.write_set(update).is_ok_and(|it| {
                if overwrites { it.overwritten.contains(field) } else { it.written.contains(field) }
            })
        };
        let mut writers = tasks.iter().flat_map(|task| {
            let label = &graph.node(task.node).label;
            task.updates.iter().filter(|it| writes(it)).map(|_| label.to_string())
        });
        WriteConflictError {
            field: self.values.fields()[field].name.clone().into_owned(),
            first: writers.next().unwrap_or_default(),
            second: writers.next().unwrap_or_default(),
            step,
            overwrites,
        }
    }

    /// Clears and returns the step-scoped fields that have a value from an earlier step and were not written in this
    /// one.
    fn clear_expired(&mut self, fold: &mut Fold) -> FieldSet {
        let expired: FieldSet =
            self.live.iter().filter(|it| !fold.folded().contains(*it)).collect();
        for field in expired.iter() {
            self.live.remove(field);
            self.values.clear(field);
            fold.record_clear(field);
        }
        expired
    }

    /// Converts stored writes into updates: see [`updates_from`].
    pub(super) fn updates_from(
        &self,
        writes: Vec<FieldWrite>,
    ) -> Result<SmallVec<[AnyUpdate; 1]>, FieldError> {
        updates_from(&*self.values, writes)
    }

    /// Returns changes that set the given fields to their current values. Untracked fields are skipped.
    pub(super) fn full_values(
        &self,
        graph: &Graph,
        fields: &FieldSet,
    ) -> Result<Vec<(String, Change)>, FieldError> {
        let stored = fields.iter().filter(|it| !graph.untracked.contains(*it));
        stored
            .map(|field| {
                let change = self.values.value(field)?.map_or(Change::Clear, Change::Set);
                Ok((self.values.fields()[field].name.clone().into_owned(), change))
            })
            .collect()
    }

    /// Returns the changes to be stored with the next checkpoint.
    fn changes(&self, graph: &Graph, fold: Fold) -> Result<Vec<(String, Change)>, FieldError> {
        let Some(deltas) = fold.into_changes() else { return Ok(Vec::new()) };
        let mut replaced = FieldSet::default();
        let mut parts = Vec::new();
        for (field, delta) in deltas {
            match delta {
                Delta::Whole => drop(replaced.insert(field)),
                Delta::Part(change) => parts.push((field, change)),
            }
        }
        let mut changes = self.full_values(graph, &replaced)?;
        for (field, change) in parts {
            // A full value already includes the partial changes.
            if !replaced.contains(field) && !graph.untracked.contains(field) {
                changes.push((self.values.fields()[field].name.clone().into_owned(), change));
            }
        }
        Ok(changes)
    }
}

/// Converts writes into updates of a state. Returns several updates if a field is written more than once.
pub(super) fn updates_from(
    state: &dyn ErasedState,
    writes: Vec<FieldWrite>,
) -> Result<SmallVec<[AnyUpdate; 1]>, FieldError> {
    let mut groups: Vec<Vec<FieldWrite>> = Vec::new();
    for write in writes {
        match groups.last_mut() {
            Some(group) if !group.iter().any(|it| it.field == write.field) => group.push(write),
            _ => groups.push(vec![write]),
        }
    }
    groups.into_iter().map(|it| state.update_from(it)).collect()
}
