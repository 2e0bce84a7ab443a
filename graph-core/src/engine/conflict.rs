//! What a conflict leaves behind where a run is stored at its end only.
//!
//! A run that is stored step by step leaves the checkpoint from before the conflict, with all its tasks pending.
//! LangGraph's exit durability stores what it had folded when it came upon the conflict, and its recorded cases
//! pin that: fields written before the one in conflict are changed, and the tasks of the step count as run.

use super::{
    Engine,
    commit::Writes,
    load::updates,
    plan::Ways,
    step::{Slot, in_task_order},
};
use crate::{Conflict, FieldWrite, RunError, graph::NodeIdx};

impl Engine {
    /// Folds what comes before the conflict, in the order in which the tasks of the step first wrote each field.
    pub(super) fn keep_until(
        &mut self,
        conflict: &Conflict,
        slots: &[Slot],
    ) -> Result<(), RunError> {
        let graph = self.scope.graph.clone();
        let mut tasks: Vec<(usize, NodeIdx, Vec<FieldWrite>)> = Vec::new();
        for slot in in_task_order(slots) {
            if let Some(done) = slots[slot].done() {
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
            folded.push((node, updates(&*self.state, writes)?));
        }
        let mut writes: Vec<_> =
            folded.iter_mut().map(|(node, updates)| Writes { node: *node, updates }).collect();
        // A second conflict among the fields kept is as good as the first: that one is reported.
        if let Ok(committed) = self.fold(&mut writes, false) {
            self.unsaved.union_with(&committed.affected);
        }
        let ways = before.iter().filter_map(|slot| {
            let done = slots[*slot].done()?;
            Some(Ways { node: slots[*slot].plan.node, edges: !done.handled, hops: &done.hops })
        });
        self.frontier.abandon(&graph, ways);
        Ok(())
    }

    fn field_index(&self, name: &str) -> Option<usize> {
        self.state.fields().iter().position(|it| it.name == name)
    }
}
