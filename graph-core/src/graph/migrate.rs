//! Upgrades stored checkpoints to the current version of the state.

use std::collections::BTreeMap;

use crate::{
    checkpoint::{
        error::CheckpointError,
        id::TaskId,
        record::{FrontierRecord, GotoRecord, TaskEvent},
        stored::Checkpoint,
    },
    context::task::{TaskKind, interrupt_id, task_id},
    graph::erased::Graph,
    namespace::nested_namespace,
    state::field::DEFAULT_REDUCER,
};

impl Graph {
    /// Upgrades a stored checkpoint to the current version of the state. Returns `true` if the stored
    /// version was older.
    pub(crate) fn migrate(&self, checkpoint: &mut Checkpoint) -> Result<bool, CheckpointError> {
        let (from, to) = (checkpoint.header.version, self.initial.version());
        if from > to {
            let problem = format!(
                "it was written with version {from} of the state, but this program only supports \
                 versions up to {to}; use a newer version of the program"
            );
            return Err(CheckpointError::corrupt(&checkpoint.key, problem));
        }
        if from == to {
            self.check_fields(checkpoint)?;
            self.check_reducers(checkpoint)?;
            return Ok(false);
        }
        self.migrations.apply(from, to, &mut checkpoint.values);
        if let Some(input) = &mut checkpoint.frontier.input {
            self.migrations.apply_to_input(from, to, &mut input.writes);
        }
        checkpoint.records.retain_mut(|record| match &mut record.event {
            // If a result cannot be upgraded, its record is removed and the task runs again.
            TaskEvent::Done { writes, .. } => self.migrations.apply_to_writes(from, to, writes),
            TaskEvent::Command { writes, .. } => {
                self.migrations.apply_to_input(from, to, writes);
                true
            }
            _ => true,
        });
        for (old, new) in self.migrations.renamed_nodes(from, to) {
            rename_node(checkpoint, old, new);
        }
        checkpoint.header.version = to;
        Ok(true)
    }

    /// Checks that the state has every stored field. Otherwise, a field that was renamed without a migration would
    /// silently be empty.
    fn check_fields(&self, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        let fields = self.initial.fields();
        let is_known = |name: &String| fields.iter().any(|it| it.name == *name);
        let unknown = checkpoint.values.keys().find(|it| !is_known(it));
        let Some(unknown) = unknown.filter(|_| self.initial.has_fixed_fields()) else {
            return Ok(());
        };
        let names: Vec<_> = fields.iter().map(|it| &*it.name).collect();
        let problem = format!(
            "it contains field `{unknown}`, but the state has only {}; increase the state's version and add \
             `Migrations::rename` or `Migrations::remove` for the field",
            names.join(", ")
        );
        Err(CheckpointError::corrupt(&checkpoint.key, problem))
    }

    /// Checks that the reducers of stored fields have not changed. The next write would otherwise, for example, replace
    /// a list that earlier writes extended.
    fn check_reducers(&self, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        if !self.initial.has_fixed_fields() {
            return Ok(());
        }
        let declared = |field: &str| self.reducers.get(field).map_or(DEFAULT_REDUCER, |it| it);
        let stored = &checkpoint.frontier.reducers;
        let Some((field, old)) = stored.iter().find(|(field, old)| declared(field) != **old) else {
            return Ok(());
        };
        let problem = format!(
            "it was written when field `{field}` had the reducer `{old}`, but the state declares `{}`; to accept \
             the change, increase the state's version, and if stored values must be converted, add \
             `Migrations::retype`",
            declared(field)
        );
        Err(CheckpointError::corrupt(&checkpoint.key, problem))
    }
}

/// Renames a node in the pending work and the records of a checkpoint.
fn rename_node(checkpoint: &mut Checkpoint, old: &str, new: &str) {
    let ids = renamed_tasks(checkpoint, old, new);
    rename_in_frontier(&mut checkpoint.frontier, old, new);
    let namespace = &checkpoint.key.namespace;
    let mut answered: BTreeMap<TaskId, usize> = BTreeMap::new();
    for record in &checkpoint.records {
        if let TaskEvent::Resumed { values } = &record.event {
            answered.insert(record.task, values.len());
        }
    }
    for record in &mut checkpoint.records {
        if let TaskEvent::Done { gotos, .. } | TaskEvent::Command { gotos, .. } = &mut record.event
        {
            rename_in_gotos(gotos, old, new);
        }
        let Some(id) = ids.get(&record.task).filter(|_| record.node == old) else { continue };
        if let TaskEvent::Interrupted { interrupts } = &mut record.event {
            let old_namespace = nested_namespace(namespace, &format!("{old}:{}", record.task));
            let new_namespace = nested_namespace(namespace, &format!("{new}:{id}"));
            // The id of an interrupt is derived from its namespace, so both change. Only interrupts that the node
            // itself raised are renamed; those of subgraphs are raised again.
            for interrupt in interrupts.iter_mut().filter(|it| it.namespace == old_namespace) {
                let earlier = answered.get(&record.task).copied().unwrap_or(0);
                interrupt.id = interrupt_id(&new_namespace, earlier);
                interrupt.namespace.clone_from(&new_namespace);
            }
        }
        record.task = *id;
        new.clone_into(&mut record.node);
    }
}

/// Maps old to new ids of all tasks that the renamed node may have in the step after the checkpoint.
fn renamed_tasks(checkpoint: &Checkpoint, old: &str, new: &str) -> BTreeMap<TaskId, TaskId> {
    let header = &checkpoint.header;
    let id = |node: &str, kind| {
        task_id(header.origin, &checkpoint.key.namespace, header.step + 1, node, kind)
    };
    let sends = u32::try_from(checkpoint.frontier.sends.len()).unwrap_or(u32::MAX);
    let kinds = (0..sends).map(TaskKind::Push).chain([TaskKind::Pull]);
    let mut ids = BTreeMap::new();
    for kind in kinds {
        let (before, after) = (id(old, kind), id(new, kind));
        ids.insert(before, after);
        ids.insert(id(old, TaskKind::Handler(before)), id(new, TaskKind::Handler(after)));
    }
    ids
}

fn rename_in_frontier(frontier: &mut FrontierRecord, old: &str, new: &str) {
    let FrontierRecord { ran, scheduled, deferred, released, .. } = frontier;
    let joined = frontier.joins.values_mut();
    for name in [ran, scheduled, deferred, released].into_iter().chain(joined).flatten() {
        rename(name, old, new);
    }
    for send in &mut frontier.sends {
        rename(&mut send.node, old, new);
    }
    if let Some(input) = &mut frontier.input {
        rename_in_gotos(&mut input.gotos, old, new);
    }
    // The key of a join consists of the names of its sources and its target, as in `a+b:c`.
    let renamed = |name: &str| if name == old { new.to_owned() } else { name.to_owned() };
    frontier.joins = std::mem::take(&mut frontier.joins)
        .into_iter()
        .map(|(key, sources)| match key.rsplit_once(':') {
            Some((from, to)) => {
                let from: Vec<_> = from.split('+').map(renamed).collect();
                (format!("{}:{}", from.join("+"), renamed(to)), sources)
            }
            None => (key, sources),
        })
        .collect();
}

fn rename_in_gotos(gotos: &mut [GotoRecord], old: &str, new: &str) {
    for goto in gotos {
        rename(&mut goto.to, old, new);
    }
}

fn rename(name: &mut String, old: &str, new: &str) {
    if name == old {
        new.clone_into(name);
    }
}
