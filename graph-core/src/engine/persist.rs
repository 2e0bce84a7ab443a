//! Persist: stores the checkpoints of a running graph and the records of its tasks.

use std::{collections::BTreeMap, time::SystemTime};

use crate::{
    checkpoint::{
        id::CheckpointId,
        record::{FrontierRecord, GotoRecord, StartRecord, TaskEvent, TaskRecord},
        stored::{CheckpointKey, CheckpointWrite, Header, NewCheckpoint, Source},
        writer::{CheckpointWriter, Durability},
    },
    engine::{
        outcome::TaskOutput,
        running::Engine,
        target::{check_payload, goto_records},
    },
    error::RunError,
    state::{
        change::Change,
        field::{FieldError, FieldSet, FieldWrite},
        limits,
    },
};

impl Engine {
    pub(super) fn stores_at_exit(&self) -> bool {
        self.writer_with(|it| it == Durability::Exit).is_some()
    }

    pub(super) fn stores_each_step(&self) -> bool {
        self.writer_with(|it| it != Durability::Exit).is_some()
    }

    /// Returns whether the results of tasks are converted to JSON and checked only when they are stored: at the end of
    /// the run, or if their step does not complete.
    ///
    /// With exit durability, the records of a step are dropped when the step is committed, so most results are never
    /// stored individually. Stream readers and eager graphs need the results immediately. So does a JSON state: if
    /// applying the writes fails halfway, the writes that were already applied can no longer be recorded.
    pub(super) fn converts_when_stored(&self) -> bool {
        self.stores_at_exit()
            && self.scope.events.is_none()
            && self.ahead.is_none()
            && self.state.values.has_fixed_fields()
    }

    fn writer_with(&self, applies: impl Fn(Durability) -> bool) -> Option<&CheckpointWriter> {
        self.scope.writer.as_ref().filter(|it| applies(it.durability))
    }

    /// Creates a checkpoint of the current state and increments the step number.
    pub(super) async fn put_checkpoint(
        &mut self,
        source: Source,
        changes: Vec<(String, Change)>,
        affected: &FieldSet,
    ) -> Result<(), RunError> {
        if let Some(writer) = self.scope.writer.clone() {
            let mut writes = Vec::with_capacity(2);
            if writer.durability == Durability::Sync {
                writes.extend(self.take_buffered_records());
            }
            let history = &mut self.history;
            history.parent = history.stored;
            history.id = CheckpointId::after(history.head.max(Some(history.id)));
            history.source = source;
            history.checkpointed = true;
            if source != Source::Loop {
                history.origin = history.id;
            }
            let records_ahead = self.records_ahead();
            if writer.durability == Durability::Exit {
                self.history.unsaved_fields.union_with(affected);
                self.history.buffered_records.extend(records_ahead);
            } else {
                if !records_ahead.is_empty() {
                    writes.push(CheckpointWrite::Record(self.checkpoint_key(), records_ahead));
                }
                writes.push(self.new_checkpoint(self.step, changes)?);
                writer.write(writes).await?;
            }
            if let Some(target) = &self.scope.record_target {
                target.set(self.history.id);
            }
        }
        self.step += 1;
        Ok(())
    }

    /// Returns a write that stores a checkpoint of the current state, and makes that checkpoint the head.
    pub(super) fn new_checkpoint(
        &mut self,
        step: i64,
        mut changes: Vec<(String, Change)>,
    ) -> Result<CheckpointWrite, RunError> {
        let mut base = self.history.stored;
        if std::mem::take(&mut self.history.rebase) {
            base = None;
            let all = (0..self.state.values.fields().len()).collect();
            changes = self.state.full_values(&self.graph, &all)?;
        }
        let checkpoint = NewCheckpoint {
            key: self.checkpoint_key(),
            expected_head: self.history.head,
            base,
            header: self.header(step),
            frontier: self.frontier_record()?,
            changes,
        };
        self.history.head = Some(self.history.id);
        self.history.stored = Some(self.history.id);
        Ok(CheckpointWrite::Put(Box::new(checkpoint)))
    }

    /// Stores the final checkpoint and the buffered records. Does nothing unless the run has exit durability.
    pub(super) async fn store_at_exit(&mut self) -> Result<(), RunError> {
        let writer = self.writer_with(|it| it == Durability::Exit).cloned();
        let Some(writer) = writer else { return Ok(()) };
        let mut writes = Vec::with_capacity(2);
        if self.history.stored != Some(self.history.id) && self.history.checkpointed {
            let unsaved = std::mem::take(&mut self.history.unsaved_fields);
            let changes = self.state.full_values(&self.graph, &unsaved)?;
            if self.converts_when_stored() {
                check_depth(&changes)?;
            }
            // `put_checkpoint` already incremented the step.
            writes.push(self.new_checkpoint(self.step - 1, changes)?);
        }
        writes.extend(self.take_buffered_records());
        Ok(writer.write(writes).await?)
    }

    /// Records task events. With async durability, they are queued immediately. Otherwise they are buffered until the
    /// next flush, the next checkpoint or the end of the run.
    pub(super) async fn record(&mut self, records: Vec<TaskRecord>) -> Result<(), RunError> {
        match &self.scope.writer {
            Some(writer) if writer.durability == Durability::Async && !records.is_empty() => {
                writer.record(self.checkpoint_key(), records).await?;
            }
            Some(_) => self.history.buffered_records.extend(records),
            None => {}
        }
        Ok(())
    }

    /// Stores the buffered records now instead of with the next checkpoint. Does nothing unless the run has sync
    /// durability.
    pub(super) async fn flush_records(&mut self) -> Result<(), RunError> {
        if self.history.buffered_records.is_empty() {
            return Ok(());
        }
        if let Some(writer) = self.writer_with(|it| it == Durability::Sync).cloned() {
            writer.write(self.take_buffered_records().into_iter().collect()).await?;
        }
        Ok(())
    }

    fn take_buffered_records(&mut self) -> Option<CheckpointWrite> {
        let records = std::mem::take(&mut self.history.buffered_records);
        (!records.is_empty()).then(|| CheckpointWrite::Record(self.checkpoint_key(), records))
    }

    pub(super) fn checkpoint_key(&self) -> CheckpointKey {
        CheckpointKey {
            thread: self.scope.thread.as_deref().unwrap_or_default().to_owned(),
            namespace: self.scope.namespace.clone(),
            id: self.history.id,
        }
    }

    fn header(&self, step: i64) -> Header {
        Header {
            parent: self.history.parent,
            origin: self.history.origin,
            step,
            source: self.history.source,
            created_at: SystemTime::now(),
            run: self.scope.run.to_string(),
            version: self.state.values.version(),
            parents: self.parents(),
            metadata: self.scope.settings.metadata.clone(),
        }
    }

    /// Returns the current checkpoint of each enclosing graph, by namespace.
    fn parents(&self) -> BTreeMap<String, CheckpointId> {
        if self.scope.parent.is_none() {
            // The enclosing graphs do not run: this is a top-level graph, or an edit of a subgraph.
            return self.history.enclosing.clone();
        }
        let enclosing =
            std::iter::successors(self.scope.parent.as_ref(), |task| task.scope.parent.as_ref());
        enclosing.map(|it| (it.scope.namespace.clone(), it.checkpoint())).collect()
    }

    /// Returns whether the checkpoints of the enclosing graphs have changed since the loaded checkpoint was created.
    pub(super) fn has_new_parents(&self) -> bool {
        self.history.enclosing != self.parents()
    }

    fn frontier_record(&self) -> Result<FrontierRecord, FieldError> {
        let record = self.frontier.to_record(&self.graph, |input| {
            let mut writes = self.state.values.writes(&input.update)?;
            self.graph.strip_untracked(&mut writes);
            self.check_size(&writes)?;
            Ok(StartRecord { writes, gotos: goto_records(&self.graph, &input.gotos)? })
        })?;
        if self.converts_when_stored() {
            // Otherwise, the payloads were already checked when their tasks ended.
            for send in &record.sends {
                check_payload(&self.graph, &send.node, &send.payload)?;
            }
        }
        Ok(record)
    }

    /// Returns the writes of a task.
    pub(super) fn writes_of(&self, output: &TaskOutput) -> Result<Vec<FieldWrite>, FieldError> {
        let mut writes = Vec::new();
        for update in &output.updates {
            writes.extend(self.state.values.writes(update)?);
        }
        Ok(writes)
    }

    /// Returns the writes of a task, or an error if they are too large or too deeply nested to be stored.
    pub(super) fn checked_writes(
        &self,
        output: &TaskOutput,
    ) -> Result<Vec<FieldWrite>, FieldError> {
        let writes = self.writes_of(output)?;
        if self.scope.writer.is_some() {
            self.check_size(&writes)?;
        }
        Ok(writes)
    }

    /// Checks that the writes are small and shallow enough to be stored.
    pub(super) fn check_size(&self, writes: &[FieldWrite]) -> Result<(), FieldError> {
        let limit = self.graph.max_stored_bytes;
        writes.iter().try_for_each(|it| limits::check_storable(&it.field, &it.value, limit))
    }

    /// Returns the event that records a finished task, without its writes to untracked fields.
    pub(super) fn done_event(
        &self,
        mut writes: Vec<FieldWrite>,
        gotos: Vec<GotoRecord>,
    ) -> TaskEvent {
        self.graph.strip_untracked(&mut writes);
        TaskEvent::Done { writes, gotos }
    }
}

/// Checks that no value is nested too deeply to be stored. The size of a value is not limited, because small writes may
/// add up to a large list.
fn check_depth(changes: &[(String, Change)]) -> Result<(), FieldError> {
    for (field, change) in changes {
        if let Change::Set(value) = change {
            limits::check_storable(field, value, usize::MAX)?;
        }
    }
    Ok(())
}
