//! Commits part of a step after a write conflict. Only exit durability requires this.
//!
//! With sync and async durability, the thread keeps the checkpoint from before the step, with all tasks of the step
//! pending. LangGraph's exit durability instead stores the writes that were folded before the conflict was detected.
//! Fields written before the conflicting field are changed, and the tasks of the step count as finished. Tests that
//! compare this engine with recorded LangGraph runs require the same behaviour here.

use crate::{
    engine::{
        commit::TaskWrites,
        load::updates_from_writes,
        plan::Transition,
        running::Engine,
        step::{Slot, in_task_order},
    },
    error::{RunError, WriteConflictError},
    graph::erased::NodeIdx,
    state::field::FieldWrite,
};

impl Engine {
    /// Folds the writes to those fields that were written, in task order, before the conflicting field.
    pub(super) fn commit_before_conflict(
        &mut self,
        conflict: &WriteConflictError,
        slots: &[Slot],
    ) -> Result<(), RunError> {
        let graph = self.graph.clone();
        let mut tasks: Vec<(usize, NodeIdx, Vec<FieldWrite>)> = Vec::new();
        for slot in in_task_order(slots) {
            if let Some(done) = slots[slot].output() {
                let mut writes = self.writes_of(done)?;
                writes.sort_by_key(|it| self.field_index(&it.field));
                tasks.push((slot, slots[slot].plan.node, writes));
            }
        }
        let in_order = tasks.iter().flat_map(|(_, _, writes)| writes).map(|it| it.field.clone());
        let kept: Vec<String> = in_order.take_while(|it| *it != conflict.field).collect();
        let first = tasks.iter().position(|it| it.2.iter().any(|it| it.field == conflict.field));
        let before: Vec<_> = tasks[..first.unwrap_or(0)].iter().map(|it| it.0).collect();
        let mut folded = Vec::new();
        for (_, node, writes) in tasks {
            let writes = writes.into_iter().filter(|it| kept.contains(&it.field)).collect();
            folded.push((node, updates_from_writes(&*self.state, writes)?));
        }
        let mut writes: Vec<_> =
            folded.iter_mut().map(|(node, updates)| TaskWrites { node: *node, updates }).collect();
        // A further conflict among these fields is ignored, because only the first conflict is reported.
        if let Ok(committed) = self.fold(&mut writes, false) {
            self.unsaved.union_with(&committed.affected);
        }
        let transitions = before.iter().filter_map(|slot| {
            let done = slots[*slot].output()?;
            Some(Transition {
                node: slots[*slot].plan.node,
                edges: !done.handled,
                targets: &done.targets,
            })
        });
        self.frontier.abandon(&graph, transitions);
        Ok(())
    }

    fn field_index(&self, name: &str) -> Option<usize> {
        self.state.fields().iter().position(|it| it.name == name)
    }
}
