//! A running graph: its state, its position in the thread and its pending work.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    checkpoint::{
        error::CheckpointError,
        id::CheckpointId,
        record::{StartRecord, TaskRecord},
        stored::{Checkpoint, Source},
    },
    context::task::{Scope, TaskContext, TaskKind, TaskStep},
    engine::{
        ahead::Ahead,
        commit::GraphState,
        load::Loaded,
        plan::{Frontier, StartInput},
        records::Records,
        target::stored_targets,
    },
    error::RunError,
    graph::{
        erased::{Graph, NodeIdx},
        stops::Stops,
    },
    remote::task_call::RemoteTaskRunner,
    state::{
        change::Change,
        erased::AnyState,
        field::{FieldError, FieldSet},
    },
};

/// A running graph.
pub(super) struct Engine {
    pub(super) graph: Arc<Graph>,
    pub(super) scope: Arc<Scope>,
    pub(super) stop_before: Stops,
    pub(super) stop_after: Stops,
    pub(super) state: GraphState,
    pub(super) frontier: Frontier,
    pub(super) step: i64,
    pub(super) max_step: i64,
    pub(super) history: History,
    /// Records that earlier runs stored for the tasks of the current step. In an eager graph, also the results and
    /// effects of tasks of later steps, from this run and earlier ones.
    pub(super) records: Records,
    /// How the run treats earlier work. `None` after the first step.
    pub(super) first_step: Option<FirstStep>,
    /// Whether this run wrote an output field or continued from a checkpoint.
    pub(super) has_output: bool,
    /// The final state of an interrupted run, including the writes of tasks that finished in the interrupted step.
    pub(super) exit_state: Option<AnyState>,
    /// The context of a finished task, kept so that the next task can reuse its allocation.
    pub(super) spare_context: Option<Arc<TaskContext>>,
    /// The tasks of an eager graph. `None` for other graphs.
    pub(super) ahead: Option<Box<Ahead>>,
    /// Runs tasks of a top-level graph in other processes.
    pub(super) task_runner: Option<Arc<dyn RemoteTaskRunner>>,
}

/// How the first step of a run treats the work of earlier runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FirstStep {
    /// Whether tasks run again even if they are recorded as finished. Set for time travel.
    pub(super) replaying: bool,
    /// Whether subgraphs resume from their own checkpoints.
    pub(super) resuming: bool,
}

/// The position of a run in its thread, and the data that the next checkpoint will store.
#[derive(Debug)]
pub(super) struct History {
    /// The checkpoint that the current step starts from.
    pub(super) id: CheckpointId,
    /// The checkpoint that task ids are derived from.
    pub(super) origin: CheckpointId,
    /// The parent of the checkpoint `id`.
    pub(super) parent: Option<CheckpointId>,
    pub(super) source: Source,
    /// Checkpoints of the enclosing graphs when the checkpoint `id` was created. An edit of a subgraph keeps them.
    pub(super) enclosing: BTreeMap<String, CheckpointId>,
    /// The newest checkpoint of the namespace that this run has seen.
    pub(super) head: Option<CheckpointId>,
    /// The last stored checkpoint. The changes in the next checkpoint are relative to it.
    pub(super) stored: Option<CheckpointId>,
    /// Whether this run has created a checkpoint.
    pub(super) checkpointed: bool,
    /// Whether the next checkpoint must contain the whole state, because the loaded checkpoint has an older state
    /// version or is in another namespace.
    pub(super) rebase: bool,
    /// Fields changed since `stored`. Used only with exit durability.
    pub(super) unsaved_fields: FieldSet,
    /// Changes made by an input command; they become part of the next checkpoint.
    pub(super) command_changes: Vec<(String, Change)>,
    /// Records to be stored with the next checkpoint or at the end of the run.
    pub(super) buffered_records: Vec<TaskRecord>,
}

impl History {
    fn new(id: CheckpointId, origin: CheckpointId) -> Self {
        Self {
            id,
            origin,
            parent: None,
            source: Source::Input,
            enclosing: BTreeMap::new(),
            head: None,
            stored: None,
            checkpointed: false,
            rebase: false,
            unsaved_fields: FieldSet::default(),
            command_changes: Vec::new(),
            buffered_records: Vec::new(),
        }
    }

    /// Moves to a stored checkpoint.
    fn move_to(&mut self, checkpoint: &Checkpoint) {
        self.id = checkpoint.key.id;
        self.origin = checkpoint.header.origin;
        self.parent = checkpoint.header.parent;
        self.source = checkpoint.header.source;
        self.enclosing.clone_from(&checkpoint.header.parents);
        self.stored = Some(self.id);
    }
}

impl Engine {
    /// Creates an engine at the loaded checkpoint, or at the start of a new thread.
    pub(super) fn new(graph: Arc<Graph>, scope: Scope, saved: &Loaded) -> Result<Self, RunError> {
        let id = CheckpointId::next();
        // A subgraph without a writer has no checkpoints, so its task ids are derived from the enclosing task's origin.
        let outer = scope.parent.as_ref().filter(|_| scope.writer.is_none());
        let origin = outer.map_or(id, |it| it.step.origin);
        let max_running = scope.settings.max_concurrency.unwrap_or(usize::MAX).max(1);
        let is_eager = scope.record_target.is_some();
        let mut engine = Self {
            stop_before: graph.stop_before.clone(),
            stop_after: graph.stop_after.clone(),
            state: GraphState::initial(&graph),
            graph,
            frontier: Frontier::default(),
            step: -1,
            max_step: 0,
            history: History { head: saved.head, ..History::new(id, origin) },
            records: Records::default(),
            first_step: Some(FirstStep::default()),
            has_output: false,
            exit_state: None,
            spare_context: None,
            ahead: is_eager.then(|| Box::new(Ahead::new(max_running))),
            scope: Arc::new(scope),
            task_runner: None,
        };
        if let Some(checkpoint) = &saved.checkpoint {
            engine.restore(checkpoint)?;
        }
        if let Some(target) = &engine.scope.record_target {
            target.set(engine.history.id);
        }
        engine.history.rebase |= saved.migrated;
        engine.max_step = engine.step + i64::from(engine.scope.settings.step_limit) + 1;
        Ok(engine)
    }

    fn restore(&mut self, checkpoint: &Checkpoint) -> Result<(), RunError> {
        self.state = GraphState::load(&self.graph, checkpoint)?;
        self.frontier = Frontier::from_record(&self.graph, &checkpoint.frontier);
        if let Some(input) = &checkpoint.frontier.input {
            let input = self.start_input(input);
            self.frontier.input =
                Some(input.map_err(|error| CheckpointError::corrupt(&checkpoint.key, &error))?);
        }
        self.records = Records::new(checkpoint.records.clone());
        self.step = checkpoint.header.step + 1;
        self.history.move_to(checkpoint);
        if checkpoint.key.namespace != self.scope.namespace {
            // The checkpoint belongs to an earlier task, so the first checkpoint in this namespace stores the whole
            // state.
            (self.history.stored, self.history.rebase) = (None, true);
        }
        Ok(())
    }

    fn start_input(&self, start: &StartRecord) -> Result<StartInput, FieldError> {
        Ok(StartInput {
            update: self.state.values.update_from(start.writes.clone())?,
            gotos: stored_targets(&self.graph, start.gotos.iter().cloned()),
        })
    }

    /// Returns the tasks of an eager graph.
    pub(super) fn ahead(&mut self) -> &mut Ahead {
        self.ahead.as_mut().expect("only eager graphs run ahead")
    }

    /// Creates the context of a task of the current step.
    pub(super) fn task_context(&self, node: NodeIdx, kind: TaskKind) -> TaskContext {
        let entry = self.graph.node(node);
        let (label, step) = (entry.label.clone(), self.task_step());
        let tracks_heartbeats = entry.options.idle_timeout.is_some();
        TaskContext::new(self.scope.clone(), label, kind, step, tracks_heartbeats)
    }

    pub(super) fn task_step(&self) -> TaskStep {
        TaskStep {
            number: self.step,
            max: self.max_step,
            origin: self.history.origin,
            checkpoint: self.history.id,
            resuming: self.first_step.is_some_and(|it| it.resuming),
        }
    }
}
