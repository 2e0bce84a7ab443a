//! Commits part of a step after a write conflict. Only exit durability requires this.
//!
//! With sync and async durability, the thread keeps the checkpoint from before the step, with all tasks of the step
//! pending. LangGraph's exit durability instead stores the writes that were folded before the conflict was detected.
//! Fields written before the conflicting field are changed, and the tasks of the step count as finished. Tests that
//! compare this engine with recorded LangGraph runs require the same behaviour here.

use crate::{
    engine::{
        outcome::TaskOutput,
        running::Engine,
        step_task::{StepTask, in_task_order},
    },
    error::{RunError, WriteConflictError},
    state::field::FieldWrite,
};

impl Engine {
    /// Folds the writes to those fields that were written, in task order, before the conflicting field.
    pub(super) fn commit_before_conflict(
        &mut self,
        conflict: &WriteConflictError,
        tasks: &[StepTask],
    ) -> Result<(), RunError> {
        let mut written: Vec<(&TaskOutput, Vec<FieldWrite>)> = Vec::new();
        for output in in_task_order(tasks).filter_map(StepTask::output) {
            let mut writes = self.writes_of(output)?;
            writes.sort_by_key(|it| self.field_index(&it.field));
            written.push((output, writes));
        }
        let in_order = written.iter().flat_map(|(_, writes)| writes).map(|it| it.field.clone());
        let kept: Vec<String> = in_order.take_while(|it| *it != conflict.field).collect();
        let writes_conflicting =
            |(_, writes): &(_, Vec<FieldWrite>)| writes.iter().any(|it| it.field == conflict.field);
        let first = written.iter().position(writes_conflicting).unwrap_or(0);
        let before: Vec<_> = written[..first].iter().map(|(output, _)| *output).collect();
        let mut folded = Vec::new();
        for (output, writes) in written {
            let writes = writes.into_iter().filter(|it| kept.contains(&it.field)).collect();
            folded.push(TaskOutput::new(output.node, self.state.updates_from(writes)?));
        }
        // A further conflict among these fields is ignored, because only the first conflict is reported.
        let options = self.commit_options(false);
        if let Ok(committed) = self.state.commit(&self.graph, &mut folded, options) {
            self.history.unsaved_fields.union_with(&committed.affected);
        }
        self.frontier.abandon(&self.graph, before.into_iter());
        Ok(())
    }

    fn field_index(&self, name: &str) -> Option<usize> {
        self.state.values.fields().iter().position(|it| it.name == name)
    }
}
