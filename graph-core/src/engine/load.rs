//! Load: prepares an engine from a stored checkpoint and an input.

use std::sync::Arc;

use crate::{
    checkpoint::{
        error::CheckpointError,
        id::{CheckpointId, TaskId},
        query::{HistoryQuery, Lookup},
        record::{FrontierRecord, GotoRecord, StartRecord, TaskEvent, TaskRecord},
        saver::Checkpointer,
        stored::{Checkpoint, CheckpointKey, Source},
    },
    context::{
        resume::{Replay, ResumeValues},
        task::{Scope, TaskContext, TaskKind},
    },
    engine::{
        commit::{self, CommitOptions, CommitResult, TaskWrites},
        execute::{resolve_gotos, run_error},
        input::{CommandInput, Resume, RunInput},
        plan::{Frontier, StartInput, Target, Targets},
        records::Records,
        running::Engine,
    },
    error::{Halt, NodeError, RunError},
    goto::Goto,
    graph::erased::Graph,
    state::{
        erased::{AnyUpdate, ErasedState},
        field::{FieldError, FieldSet, FieldWrite},
        limits,
    },
};

/// The checkpoint that a run starts from.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    checkpoint: Option<Checkpoint>,
    /// The namespace's newest checkpoint.
    head: Option<CheckpointId>,
    /// Whether the caller addressed the checkpoint by id.
    addressed: bool,
    /// Whether the checkpoint was migrated from an older state version.
    migrated: bool,
}

impl Loaded {
    pub(crate) fn into_checkpoint(self) -> Option<Checkpoint> {
        self.checkpoint
    }

    /// Drops the checkpoint but keeps the head, because the next checkpoint must be stored after the head.
    pub(crate) fn without_checkpoint(self) -> Self {
        Self { head: self.head, ..Self::default() }
    }

    /// Returns whether the checkpoint was created in the step that `task` belongs to.
    pub(crate) fn was_started_by(&self, task: &TaskContext) -> bool {
        let parents = self.checkpoint.as_ref().map(|it| &it.header.parents);
        parents.and_then(|it| it.get(&task.scope.namespace)) == Some(&task.step.checkpoint)
    }

    /// Returns whether the caller addressed a checkpoint that is not the head.
    pub(super) fn is_superseded(&self) -> bool {
        self.addressed && self.checkpoint.as_ref().map(|it| it.key.id) != self.head
    }

    /// Returns whether the run travels in time, that is, starts again from the addressed checkpoint instead of
    /// continuing the thread.
    fn is_time_travel(&self, input: &RunInput) -> bool {
        let resumes = matches!(input, RunInput::Command(it) if it.resume.is_some());
        self.addressed && (!resumes || self.is_superseded())
    }

    /// Returns the time-travel data for subgraphs, if this run travels in time.
    pub(crate) fn replay(&self, input: &RunInput) -> Option<Arc<Replay>> {
        let checkpoint = self.checkpoint.as_ref()?;
        if !self.is_time_travel(input) || matches!(input, RunInput::Fresh(_)) {
            return None;
        }
        // A checkpoint created by an edit is newer than the subgraph checkpoints of the edited step, so its parent is
        // the bound.
        let edited = matches!(checkpoint.header.source, Source::Update | Source::Fork);
        let bound = checkpoint.header.parent.filter(|_| edited).unwrap_or(checkpoint.key.id);
        Some(Arc::new(Replay::new(bound)))
    }
}

/// Reads the checkpoint that a run starts from, and migrates it to the current state version.
pub(crate) async fn load(
    graph: &Graph,
    saver: &Arc<dyn Checkpointer>,
    thread: &str,
    namespace: &str,
    at: Option<CheckpointId>,
) -> Result<Loaded, CheckpointError> {
    let head = saver.get(&Lookup::head(thread, namespace)).await?;
    let head_id = head.as_ref().map(|it| it.key.id);
    let mut checkpoint = match at {
        None => head,
        Some(id) if head_id == Some(id) => head,
        Some(id) => {
            let found = saver.get(&Lookup::exact(thread, namespace, id)).await?;
            Some(found.ok_or_else(|| CheckpointError::UnknownCheckpoint {
                thread: thread.to_owned(),
                namespace: namespace.to_owned(),
                id,
            })?)
        }
    };
    let migrated = checkpoint.as_mut().map_or(Ok(false), |it| graph.migrate(it))?;
    Ok(Loaded { checkpoint, head: head_id, addressed: at.is_some(), migrated })
}

/// Reads the checkpoint that a subgraph starts from. The second returned value is `true` if the run travels in time.
pub(crate) async fn load_nested(
    graph: &Graph,
    saver: &Arc<dyn Checkpointer>,
    thread: &str,
    namespace: &str,
    replay: Option<&Replay>,
) -> Result<(Loaded, bool), CheckpointError> {
    let mut loaded = load(graph, saver, thread, namespace, None).await?;
    let Some(replay) = replay else { return Ok((loaded, false)) };
    if let Some(bound) = replay.enter(namespace) {
        let older = HistoryQuery::new(thread, namespace).before(bound).limit(1);
        loaded.checkpoint = saver.list(&older).await?.into_iter().next();
        loaded.migrated = loaded.checkpoint.as_mut().map_or(Ok(false), |it| graph.migrate(it))?;
    }
    Ok((loaded, true))
}

/// Extracts the resume values from an input and checks them against the pending interrupts.
pub(crate) fn take_resume_values(
    input: &mut RunInput,
    saved: &Loaded,
) -> Result<ResumeValues, RunError> {
    if let RunInput::Command(CommandInput { resume: Some(resume), .. }) = &*input {
        let values: Vec<&serde_json::Value> = match resume {
            Resume::Single(value) => vec![value],
            Resume::ById(values) => values.values().collect(),
        };
        values
            .into_iter()
            .try_for_each(|it| limits::check_storable("resume value", it, usize::MAX))?;
    }
    let RunInput::Command(CommandInput { resume, .. }) = input else {
        return Ok(ResumeValues::default());
    };
    let stored = saved.checkpoint.as_ref().map(|it| it.records.clone()).unwrap_or_default();
    let records = Records::new(stored);
    match resume {
        None => Ok(ResumeValues::default()),
        Some(Resume::Single(value)) => {
            let pending = records.pending_interrupts().count();
            if pending > 1 {
                return Err(RunError::AmbiguousResume { pending });
            }
            Ok(ResumeValues::new(Some(value.clone()), Default::default()))
        }
        Some(Resume::ById(values)) => {
            let known = |id: &String| records.pending_interrupts().any(|it| it.id == *id);
            // In time travel, an interrupt may already have been resumed, so its id need not be pending.
            if let Some(id) = values.keys().find(|it| !saved.is_superseded() && !known(it)) {
                return Err(RunError::UnknownInterrupt { id: id.clone() });
            }
            Ok(ResumeValues::new(None, values.clone()))
        }
    }
}

impl Engine {
    /// Creates an engine at the loaded checkpoint, or at the start of a new thread.
    pub(crate) fn new(graph: Arc<Graph>, scope: Scope, saved: &Loaded) -> Result<Self, RunError> {
        let scope = Arc::new(scope);
        let mut engine = Self::at_start(graph, &scope);
        engine.head = saved.head;
        if let Some(checkpoint) = &saved.checkpoint {
            engine.restore(checkpoint)?;
        }
        engine.rebase = saved.migrated;
        engine.max_step = engine.step + i64::from(scope.settings.step_limit) + 1;
        Ok(engine)
    }

    fn at_start(graph: Arc<Graph>, scope: &Arc<Scope>) -> Self {
        let id = CheckpointId::next();
        // A subgraph without a writer has no checkpoints of its own, so its task ids are derived from the enclosing
        // task's origin.
        let outer = scope.parent.as_ref().filter(|_| scope.writer.is_none());
        let origin = outer.map_or(id, |it| it.step.origin);
        Self {
            stop_before: graph.stop_before.clone(),
            stop_after: graph.stop_after.clone(),
            state: graph.initial.fork(),
            graph,
            scope: scope.clone(),
            frontier: Frontier::default(),
            live_step_scoped: FieldSet::default(),
            step: -1,
            max_step: 0,
            id,
            origin,
            parent: None,
            source: Source::Input,
            head: None,
            stored: None,
            unsaved: FieldSet::default(),
            rebase: false,
            command_changes: Vec::new(),
            records: Records::default(),
            buffered_records: Vec::new(),
            first_step: true,
            replaying: false,
            resuming: false,
            checkpointed: false,
            has_output: false,
            spare_context: None,
            exit_state: None,
        }
    }

    fn restore(&mut self, checkpoint: &Checkpoint) -> Result<(), RunError> {
        let graph = self.graph.clone();
        let corrupt_error = |error: FieldError| corrupt_error(&checkpoint.key, &error);
        (self.state, self.live_step_scoped) = stored_state(&graph, checkpoint)?;
        self.frontier = Frontier::from_record(&graph, &checkpoint.frontier);
        self.frontier.input = match &checkpoint.frontier.input {
            Some(start) => Some(self.start_input(start).map_err(corrupt_error)?),
            None => None,
        };
        self.records = Records::new(checkpoint.records.clone());
        self.step = checkpoint.header.step + 1;
        self.id = checkpoint.key.id;
        self.origin = checkpoint.header.origin;
        self.source = checkpoint.header.source;
        self.parent = checkpoint.header.parent;
        self.stored = Some(self.id);
        Ok(())
    }

    /// Applies the run's input: fresh input, a command, or nothing.
    ///
    /// For a subgraph, `nested` is `Some` and says whether the subgraph resumes from its own checkpoint.
    pub(crate) async fn apply_input(
        &mut self,
        input: RunInput,
        saved: Loaded,
        nested: Option<bool>,
    ) -> Result<(), RunError> {
        let known = saved.checkpoint.is_some();
        // The run holds the lease of its thread, so two processes cannot both apply the input. A subgraph decides by
        // `nested` whether it continues.
        let input = match input {
            RunInput::StartOrContinue(update) if !known || nested.is_some() => {
                RunInput::Fresh(update)
            }
            input => input,
        };
        let resumes = known && nested.unwrap_or(!matches!(input, RunInput::Fresh(_)));
        self.resuming = nested.unwrap_or(resumes);
        self.replaying = saved.is_time_travel(&input);
        if self.replaying {
            self.records.clear_interrupts();
        }
        let edited = matches!(self.source, Source::Update | Source::Fork);
        let forks = resumes && self.replaying && (!edited || saved.is_superseded());
        self.apply_stored_commands()?;
        match input {
            _ if resumes && nested.is_some() => {}
            RunInput::Fresh(update) => {
                return self.start_from_input(StartInput { update, gotos: Targets::new() }).await;
            }
            RunInput::Continue if !known => return Err(RunError::EmptyInput),
            RunInput::Continue | RunInput::StartOrContinue(_) => {}
            RunInput::Command(command) => {
                if command.update.is_none() && command.gotos.is_empty() && command.resume.is_none()
                {
                    return Err(RunError::EmptyInput);
                }
                let gotos = self.command_targets(command.gotos)?;
                if !known {
                    let update = match command.update {
                        Some(update) => update,
                        None => self.state.update_from(Vec::new())?,
                    };
                    return self.start_from_input(StartInput { update, gotos }).await;
                }
                self.apply_command_input(command.update, gotos, !forks).await?;
            }
        }
        self.frontier.resumed_version = self.frontier.version;
        if forks {
            self.records.clear();
            let affected = std::mem::take(&mut self.unsaved);
            let changes = std::mem::take(&mut self.command_changes);
            self.put_checkpoint(Source::Fork, changes, &affected).await?;
        }
        self.has_output = true;
        self.emit_values(&*self.state, true).await;
        Ok(())
    }

    /// Drops pending tasks and stores a checkpoint with the fresh input, so that START runs next.
    async fn start_from_input(&mut self, input: StartInput) -> Result<(), RunError> {
        let graph = self.graph.clone();
        let clear_step_scoped = self.frontier.discard_pending(&graph);
        let committed = self.fold(&mut [], clear_step_scoped)?;
        // Changes made by an earlier command are part of the state that the input is applied to.
        let mut changes = std::mem::take(&mut self.command_changes);
        changes.extend(committed.changes);
        let mut affected = std::mem::take(&mut self.unsaved);
        affected.union_with(&committed.affected);
        self.frontier.version += 1;
        self.frontier.input = Some(input);
        self.records.clear();
        self.put_checkpoint(Source::Input, changes, &affected).await
    }

    /// Applies an input command to the loaded checkpoint. If `record` is true, the command is recorded first, so that
    /// a later run can apply it again.
    async fn apply_command_input(
        &mut self,
        update: Option<AnyUpdate>,
        targets: Targets,
        record: bool,
    ) -> Result<(), RunError> {
        let graph = self.graph.clone();
        if update.is_none() && targets.is_empty() {
            return Ok(());
        }
        if record {
            let mut writes = match &update {
                Some(update) => self.state.writes(update)?,
                None => Vec::new(),
            };
            self.strip_untracked(&mut writes);
            self.check_size(&writes)?;
            let gotos = targets.iter().map(|it| it.to_record(&graph)).collect::<Result<_, _>>()?;
            let run = self.scope.run.to_string();
            let event = TaskEvent::Command { run, writes, gotos };
            self.record(vec![TaskRecord { task: TaskId::COMMAND, node: String::new(), event }])
                .await?;
            self.flush_records().await?;
        }
        self.apply_command(update, &targets)
    }

    /// Applies the commands that earlier runs recorded on this checkpoint.
    pub(super) fn apply_stored_commands(&mut self) -> Result<(), RunError> {
        for (writes, gotos) in std::mem::take(&mut self.records.commands) {
            let update = self.state.update_from(writes)?;
            let graph = &self.graph;
            let targets = stored_targets(graph, gotos);
            self.apply_command(Some(update), &targets)?;
        }
        Ok(())
    }

    fn apply_command(
        &mut self,
        update: Option<AnyUpdate>,
        targets: &[Target],
    ) -> Result<(), RunError> {
        let mut updates: Vec<_> = update.into_iter().collect();
        let start = self.graph.start;
        let tasks = &mut [TaskWrites { node: start, updates: &mut updates }];
        let committed = self.fold(tasks, false)?;
        self.command_changes.extend(committed.changes);
        self.unsaved.union_with(&committed.affected);
        self.frontier.apply_command(&self.graph.clone(), targets);
        Ok(())
    }

    fn command_targets(&self, gotos: Vec<Goto>) -> Result<Targets, RunError> {
        let graph = &self.graph;
        let mut targets = Targets::new();
        match resolve_gotos(graph, graph.start, gotos, &mut targets).map_err(NodeError::into_halt) {
            Ok(()) => Ok(targets),
            Err(Halt::Failed { source, terminal }) => {
                let task = self.task_context(graph.start, TaskKind::Pull);
                Err(run_error(&task, source, terminal))
            }
            Err(_) => Err(RunError::EmptyInput),
        }
    }

    /// Folds writes into the state.
    pub(super) fn fold(
        &mut self,
        tasks: &mut [TaskWrites<'_>],
        clear_step_scoped: bool,
    ) -> Result<CommitResult, RunError> {
        let options = self.commit_options(clear_step_scoped);
        commit::commit(&self.graph, &mut *self.state, &mut self.live_step_scoped, tasks, options)
    }

    pub(super) fn commit_options(&self, clear_step_scoped: bool) -> CommitOptions {
        CommitOptions {
            step: self.step,
            clear_step_scoped,
            collect_changes: self.stores_each_step(),
        }
    }

    pub(super) fn frontier_record(&self) -> Result<FrontierRecord, FieldError> {
        self.frontier.to_record(&self.graph, |input| {
            let gotos = input.gotos.iter().map(|it| it.to_record(&self.graph));
            let mut writes = self.state.writes(&input.update)?;
            self.strip_untracked(&mut writes);
            self.check_size(&writes)?;
            Ok(StartRecord { writes, gotos: gotos.collect::<Result<_, _>>()? })
        })
    }

    fn start_input(&self, start: &StartRecord) -> Result<StartInput, FieldError> {
        let gotos = start.gotos.iter().cloned();
        Ok(StartInput {
            update: self.state.update_from(start.writes.clone())?,
            gotos: gotos.filter_map(|it| Target::from_record(&self.graph, it)).collect(),
        })
    }
}

/// Returns the state of a checkpoint and the set of step-scoped fields that have a value.
pub(super) fn stored_state(
    graph: &Graph,
    checkpoint: &Checkpoint,
) -> Result<(Box<dyn ErasedState>, FieldSet), CheckpointError> {
    let mut state = graph.initial.fork();
    let present = |field: usize| checkpoint.values.contains_key(&*state.fields()[field].name);
    let live = graph.step_scoped.iter().filter(|it| present(*it)).collect();
    state
        .load(checkpoint.values.clone())
        .map_err(|error| corrupt_error(&checkpoint.key, &error))?;
    Ok((state, live))
}

/// Returns the error for a checkpoint whose values do not fit the state type.
pub(super) fn corrupt_error(key: &CheckpointKey, error: &FieldError) -> CheckpointError {
    CheckpointError::Corrupt { thread: key.thread.clone(), id: key.id, problem: error.to_string() }
}

/// Converts writes into updates. Returns several updates if a field is written more than once.
pub(super) fn updates_from_writes(
    state: &dyn ErasedState,
    writes: Vec<FieldWrite>,
) -> Result<smallvec::SmallVec<[AnyUpdate; 1]>, FieldError> {
    let mut groups: Vec<Vec<FieldWrite>> = Vec::new();
    for write in writes {
        match groups.last_mut() {
            Some(group) if !group.iter().any(|it| it.field == write.field) => group.push(write),
            _ => groups.push(vec![write]),
        }
    }
    groups.into_iter().map(|it| state.update_from(it)).collect()
}

/// Resolves stored gotos. Gotos to nodes that no longer exist are skipped.
pub(super) fn stored_targets(graph: &Graph, gotos: Vec<GotoRecord>) -> Targets {
    gotos.into_iter().filter_map(|it| Target::from_record(graph, it)).collect()
}
