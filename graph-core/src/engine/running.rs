//! A running graph.

use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use crate::{
    checkpoint::{
        id::CheckpointId,
        record::TaskRecord,
        stored::{CheckpointKey, CheckpointWrite, Header, NewCheckpoint, Source},
        writer::Durability,
    },
    context::task::{Scope, TaskContext},
    engine::{
        commit,
        outcome::{ExitReason, GraphOutcome},
        plan::Frontier,
        records::Records,
    },
    error::RunError,
    graph::{erased::Graph, stops::Stops},
    spans,
    state::{
        change::Change,
        erased::{AnyState, ErasedState},
        field::FieldSet,
    },
};

/// A running graph: its state, its position in the thread and its pending work.
pub(crate) struct Engine {
    pub(super) graph: Arc<Graph>,
    pub(super) stop_before: Stops,
    pub(super) stop_after: Stops,
    pub(super) scope: Arc<Scope>,
    pub(super) state: Box<dyn ErasedState>,
    pub(super) frontier: Frontier,
    /// Step-scoped fields that currently have a value.
    pub(super) live_step_scoped: FieldSet,
    pub(super) step: i64,
    pub(super) max_step: i64,
    /// The checkpoint that the current step starts from.
    pub(super) id: CheckpointId,
    /// The checkpoint that task ids are derived from.
    pub(super) origin: CheckpointId,
    /// The parent of the checkpoint `id`.
    pub(super) parent: Option<CheckpointId>,
    pub(super) source: Source,
    /// The namespace's newest checkpoint, as far as this run knows.
    pub(super) head: Option<CheckpointId>,
    /// The last stored checkpoint. The changes in the next checkpoint are relative to it.
    pub(super) stored: Option<CheckpointId>,
    /// Fields changed since `stored`. Used only with exit durability.
    pub(super) unsaved: FieldSet,
    /// Whether the next checkpoint must contain the whole state because `stored` has an older state version.
    pub(super) rebase: bool,
    /// Changes made by an input command; they become part of the next checkpoint.
    pub(super) command_changes: Vec<(String, Change)>,
    /// Records that earlier runs stored for the tasks of the current step.
    pub(super) records: Records,
    /// Records to be stored with the next checkpoint or at the end of the run.
    pub(super) buffered_records: Vec<TaskRecord>,
    pub(super) first_step: bool,
    /// Whether tasks run again even if they are recorded as finished. Set for time travel.
    pub(super) replaying: bool,
    /// Whether subgraphs that run in this step resume from their own checkpoints.
    pub(super) resuming: bool,
    /// Whether this run has created a checkpoint.
    pub(super) checkpointed: bool,
    /// Whether this run wrote an output field or continued from a checkpoint.
    pub(super) has_output: bool,
    /// The final state of an interrupted run, including the writes of tasks that finished in the interrupted step.
    pub(super) exit_state: Option<AnyState>,
    /// The context of a finished task, kept so that the next task can reuse its allocation.
    pub(super) spare_context: Option<Arc<TaskContext>>,
}

impl Engine {
    /// Runs supersteps until the graph completes, stops, is interrupted or fails.
    ///
    /// `store_when_done` applies to exit durability only. It determines whether the graph stores a checkpoint if it
    /// completes or exceeds its step limit.
    pub(super) async fn run_to_end(
        mut self,
        store_when_done: bool,
    ) -> Result<GraphOutcome, RunError> {
        let fast_path = self.can_use_fast_path();
        let exit = loop {
            let span = spans::superstep(&self.scope.namespace, self.step);
            let step = match fast_path.then(|| self.fast_path_node()).flatten() {
                Some(node) => spans::instrument(span, self.run_fast_step(node)).await,
                None => spans::instrument(span, self.run_step()).await,
            };
            match step {
                Ok(None) => {}
                Ok(Some(reason)) => break Ok(reason),
                Err(error) => break Err(error),
            }
        };
        // As in LangGraph, a subgraph that exceeds its step limit stores no checkpoint at exit, so the next run starts
        // it over.
        let discarded = matches!(exit, Ok(ExitReason::Done)) || self.step > self.max_step;
        if store_when_done || !discarded {
            self.store_at_exit().await?;
        }
        let flushed = self.flush_records().await;
        let exit = exit?;
        flushed?;
        let state = self.exit_state.take().unwrap_or_else(|| self.state.snapshot());
        Ok(GraphOutcome { exit, state, has_output: self.has_output })
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
            if writer.durability == Durability::Sync && !self.buffered_records.is_empty() {
                writes.push(CheckpointWrite::Record(
                    self.checkpoint_key(),
                    std::mem::take(&mut self.buffered_records),
                ));
            }
            self.parent = self.stored;
            self.id = CheckpointId::after(self.head.max(Some(self.id)));
            self.source = source;
            self.checkpointed = true;
            if source != Source::Loop {
                self.origin = self.id;
            }
            if writer.durability == Durability::Exit {
                self.unsaved.union_with(affected);
            } else {
                writes.push(self.new_checkpoint(changes)?);
                writer.write(writes).await?;
            }
        }
        self.step += 1;
        Ok(())
    }

    /// Returns a write that stores a checkpoint of the current state, and makes that checkpoint the head.
    pub(super) fn new_checkpoint(
        &mut self,
        mut changes: Vec<(String, Change)>,
    ) -> Result<CheckpointWrite, RunError> {
        let mut base = self.stored;
        if std::mem::take(&mut self.rebase) {
            base = None;
            let all = (0..self.state.fields().len()).collect();
            changes = commit::full_values(&self.graph, &*self.state, &all)?;
        }
        let checkpoint = NewCheckpoint {
            key: self.checkpoint_key(),
            expected_head: self.head,
            base,
            header: self.header(),
            frontier: self.frontier_record()?,
            changes,
        };
        self.head = Some(self.id);
        self.stored = Some(self.id);
        Ok(CheckpointWrite::Put(Box::new(checkpoint)))
    }

    /// Stores the final checkpoint and the buffered records. Does nothing unless the run has exit durability.
    pub(super) async fn store_at_exit(&mut self) -> Result<(), RunError> {
        let writer = self.scope.writer.clone().filter(|it| it.durability == Durability::Exit);
        let Some(writer) = writer else { return Ok(()) };
        let mut writes = Vec::with_capacity(2);
        if self.stored != Some(self.id) && self.checkpointed {
            let unsaved = std::mem::take(&mut self.unsaved);
            let changes = commit::full_values(&self.graph, &*self.state, &unsaved)?;
            // `put_checkpoint` already incremented the step.
            self.step -= 1;
            let checkpoint = self.new_checkpoint(changes);
            self.step += 1;
            writes.push(checkpoint?);
        }
        let records = std::mem::take(&mut self.buffered_records);
        if !records.is_empty() {
            writes.push(CheckpointWrite::Record(self.checkpoint_key(), records));
        }
        Ok(writer.write(writes).await?)
    }

    /// Stores the buffered records now instead of with the next checkpoint. Does nothing unless the run has sync
    /// durability.
    pub(super) async fn flush_records(&mut self) -> Result<(), RunError> {
        let is_pending = !self.buffered_records.is_empty();
        let writer = self.scope.writer.clone().filter(|it| it.durability == Durability::Sync);
        if let (true, Some(writer)) = (is_pending, writer) {
            let records = std::mem::take(&mut self.buffered_records);
            writer.record(self.checkpoint_key(), records).await?;
        }
        Ok(())
    }

    pub(super) fn checkpoint_key(&self) -> CheckpointKey {
        CheckpointKey {
            thread: self.scope.thread.as_deref().unwrap_or_default().to_owned(),
            namespace: self.scope.namespace.clone(),
            id: self.id,
        }
    }

    pub(super) fn header(&self) -> Header {
        Header {
            parent: self.parent,
            origin: self.origin,
            step: self.step,
            source: self.source,
            created_at: SystemTime::now(),
            run: self.scope.run.to_string(),
            version: self.state.version(),
            parents: self.parents(),
            metadata: self.scope.settings.metadata.clone(),
        }
    }

    /// Returns the current checkpoint of each enclosing graph, by namespace.
    pub(super) fn parents(&self) -> BTreeMap<String, CheckpointId> {
        let mut parents = BTreeMap::new();
        let mut task = self.scope.parent.as_ref();
        while let Some(outer) = task {
            parents.insert(outer.scope.namespace.clone(), outer.step.checkpoint);
            task = outer.scope.parent.as_ref();
        }
        parents
    }
}
